#pragma once
// The kernels behind CudaOps: one declaration per op, over raw device pointers and sizes that have
// been checked, enqueued on a stream. T is the storage type; every sum and statistic is fp32.
// Defined for float, __nv_bfloat16 and __half in the file of the op's name. Contracts:
// chimera/ops/ops.h.
#include "chimera/ops/numbers.h"
#include "device/port.h"

namespace chimera::cuda {

using Index = std::int64_t;

// What a thread moves at once, where it may: at addresses (null: not used) that are `aligned`.
constexpr int kPackBytes = 16;
template <class... P>
bool aligned(const P*... pointers) {
  return ((reinterpret_cast<std::uintptr_t>(pointers) % kPackBytes == 0) && ...);
}

// What a stream's kernels share between calls; grows when asked, owned by CudaOps.
class Scratch;

// The first id outside [0, V) that kernels of one op have met since it was last cleared: row << 32
// | id, kNoBadId where there was none. Such ids are read as 0; the owner reports.
using BadId = unsigned long long;
inline constexpr BadId kNoBadId = ~0ull;

// Whether this build has code for the current device: success or CUDA's reason.
cudaError_t probe_kernels();

// out = residual + mask * branch over samples of `size` numbers each; residual may be null.
template <class T>
void dropout_add(T* out, const T* residual, const T* branch, const Mask& mask, Index samples,
                 Index size, cudaStream_t stream);

template <class T>
void gelu_forward(T* y, const T* x, Index n, cudaStream_t stream);
template <class T>
void gelu_backward(T* dx, const T* dy, const T* x, Index n, cudaStream_t stream);

template <class T>
void layernorm_forward(T* y, float* mean, float* rstd, const T* x, const T* gain, const T* bias,
                       float epsilon, Index R, Index C, cudaStream_t stream);
// out = residual + mask * branch, normalised; `tokens` rows of C numbers make a sample. C is a
// multiple of 4, or there is no mask.
template <class T>
void residual_layernorm_forward(T* y, float* mean, float* rstd, T* out, const T* residual,
                                const T* branch, const T* gain, const T* bias, float epsilon,
                                const Mask& mask, Index tokens, Index R, Index C,
                                cudaStream_t stream);
// All gradients in one pass, for rows of at most kMostFusedColumns<T> numbers.
template <class T>
inline constexpr Index kMostFusedColumns = 512 * kPackBytes / Index{sizeof(T)};
template <class T>
void layernorm_backward(T* dx, float* dgain, float* dbias, const float* mean, const float* rstd,
                        const T* dy, const T* x, const T* gain, bool add, Index R, Index C,
                        Scratch& scratch, cudaStream_t stream);
template <class T>
void layernorm_backward_input(T* dx, const float* mean, const float* rstd, const T* dy, const T* x,
                              const T* gain, bool add, Index R, Index C, cudaStream_t stream);
template <class T>
void layernorm_backward_weight(float* dgain, float* dbias, const float* mean, const float* rstd,
                               const T* dy, const T* x, Index R, Index C, Scratch& scratch,
                               cudaStream_t stream);
// dbias += column sums of dy (R, N).
template <class T>
void bias_backward(float* dbias, const T* dy, Index R, Index N, Scratch& scratch,
                   cudaStream_t stream);

// x (R, C) = wte[token] + wpe[row % T], without dropout.
template <class T>
void embedding_forward(T* x, const std::int32_t* tokens, const T* wte, const T* wpe, BadId* bad,
                       Index tokens_of_sample, Index R, Index C, Index V, cudaStream_t stream);
// dwte += and dwpe += (null: not wanted) from dx, rows in ascending order.
template <class T>
void embedding_backward(float* dwte, float* dwpe, const T* dx, const std::int32_t* tokens,
                        BadId* bad, Index tokens_of_sample, Index R, Index C, Index V,
                        Scratch& scratch, cudaStream_t stream);

template <class T>
void cross_entropy(float* losses, T* logits, const std::int32_t* targets, BadId* bad,
                   float smoothing, float scale, bool gradient, Index R, Index V,
                   cudaStream_t stream);

// Queries, keys and values as AttentionShape says; lse may be null. In fp32, or on tensor cores
// over 16-bit numbers.
template <class T>
void attention_forward(T* out, float* lse, const T* q, const T* k, const T* v,
                       const AttentionShape& shape, const Mask& mask, cudaStream_t stream);
// dq, dk, dv are laid out as q, k, v.
template <class T>
void attention_backward(T* dq, T* dk, T* dv, float* delta, const T* dout, const T* out,
                        const float* lse, const T* q, const T* k, const T* v,
                        const AttentionShape& shape, const Mask& mask, cudaStream_t stream);
template <>
void attention_forward(float*, float*, const float*, const float*, const float*,
                       const AttentionShape&, const Mask&, cudaStream_t);
template <>
void attention_forward(__nv_bfloat16*, float*, const __nv_bfloat16*, const __nv_bfloat16*,
                       const __nv_bfloat16*, const AttentionShape&, const Mask&, cudaStream_t);
template <>
void attention_forward(__half*, float*, const __half*, const __half*, const __half*,
                       const AttentionShape&, const Mask&, cudaStream_t);
template <>
void attention_backward(float*, float*, float*, float*, const float*, const float*, const float*,
                        const float*, const float*, const float*, const AttentionShape&,
                        const Mask&, cudaStream_t);
template <>
void attention_backward(__nv_bfloat16*, __nv_bfloat16*, __nv_bfloat16*, float*,
                        const __nv_bfloat16*, const __nv_bfloat16*, const float*,
                        const __nv_bfloat16*, const __nv_bfloat16*, const __nv_bfloat16*,
                        const AttentionShape&, const Mask&, cudaStream_t);
template <>
void attention_backward(__half*, __half*, __half*, float*, const __half*, const __half*,
                        const float*, const __half*, const __half*, const __half*,
                        const AttentionShape&, const Mask&, cudaStream_t);
// qkv (R, 3, C) against the cache keys, values (P, C), whose rows first ... first + R - 1 it gives.
template <class T>
void attention_cached(T* out, T* keys, T* values, const T* qkv, const AttentionShape& shape,
                      cudaStream_t stream);

// One parameter of an AdamW step; tables of them lie in device memory.
struct AdamWEntry {
  float *param, *m, *v;
  const float* grad;
  void* weight;  // 16-bit numbers, or null
  Index n, first;
  float rate, decay_factor;
  std::uint32_t order;
  std::uint32_t chunk;  // number of the first of its chunks
  bool half;            // weight is fp16, else bf16
  bool wide;            // everything may be moved in packs
};
inline constexpr Index kAdamWChunk = 4096;  // elements of a block
struct AdamWCommon {
  AdamWNumbers numbers;  // rate and decay_factor are those of the entries
  bool stochastic;
  std::uint32_t key[2], step[2];  // of chimera/ops/stochastic.h
};
void adamw(const AdamWEntry* entries, int count, Index chunks, const AdamWCommon& common,
           cudaStream_t stream);

// One tensor of sum_squares.
struct SumEntry {
  const float* x;
  Index n;
  double before;
  Index block;  // number of the first of its blocks of kSumBlock elements
  bool wide;
};
// partial (blocks): sum of squares of each block; then sums[i] = before + the blocks of entry i, in
// order, and behind the sums `words` numbers of 64 bits from `found`.
void sum_squares(double* sums, double* partial, const SumEntry* entries, int count, Index blocks,
                 const BadId* found, int words, cudaStream_t stream);
// sums[r] = the sum of row r of x (R, C).
void sum_rows(double* sums, const float* x, Index R, Index C, cudaStream_t stream);

template <class To, class From>
void convert(To* out, const From* x, Index n, cudaStream_t stream);
// C numbers of each of R rows, which begin to_row and from_row numbers apart.
template <class T>
void copy_2d(T* to, Index to_row, const T* from, Index from_row, Index R, Index C,
             cudaStream_t stream);
// out (M, N) = or += 0 + bias (null: none).
template <class T>
void broadcast_bias(T* out, const T* bias, bool add, Index M, Index N, cudaStream_t stream);

}  // namespace chimera::cuda
