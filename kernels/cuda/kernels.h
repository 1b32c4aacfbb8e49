#pragma once
// The kernels behind CudaOps: one declaration per op, over raw device pointers and sizes that have
// been checked, enqueued on a stream. T is the storage type; every sum and statistic is fp32.
// Defined for float, __nv_bfloat16 and __half in the file of the op's name. Contracts:
// chimera/ops/ops.h.
#include "chimera/ops/numbers.h"
#include "port.h"

namespace chimera::cuda {

using Index = std::int64_t;

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
void layernorm_forward(T* y, float* mean, float* rstd, const T* x, const float* gain,
                       const float* bias, float epsilon, Index R, Index C, cudaStream_t stream);
template <class T>
void layernorm_backward_input(T* dx, const float* mean, const float* rstd, const T* dy, const T* x,
                              const float* gain, bool add, Index R, Index C, cudaStream_t stream);
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

void adamw(float* param, float* m, float* v, const float* grad, const AdamWNumbers& numbers,
           Index n, cudaStream_t stream);
// partial[i] = sum of squares of block i of kSumBlock elements.
template <class T>
void sum_squares(double* partial, const T* x, Index n, cudaStream_t stream);
// out (M, N) = or += 0 + bias (null: none).
template <class T>
void fill_rows(T* out, const T* bias, bool add, Index M, Index N, cudaStream_t stream);

}  // namespace chimera::cuda
