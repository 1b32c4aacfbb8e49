#pragma once
// The table of plain kernels behind CpuOps. Every kernel file is compiled once per instruction set
// and fills its part of that set's table; cpu_ops.cpp checks shapes and splits the work over the
// team. A kernel gets raw pointers, sizes and a range [begin, end) of its own units of work, keeps
// no state and allocates nothing.
//
// A kernel file must not emit a function that another translation unit may share: the linker keeps
// one copy, and a baseline machine would run AVX-512 code. So: no C++ library, internal linkage
// only (tests/kernels/isolation_test.cpp looks at the symbols).
#include "chimera/ops/numbers.h"

namespace chimera::cpu {

using Index = int64_t;
using chimera::AdamWNumbers;
using chimera::AttentionShape;
using chimera::Mask;

// Dropout splits a sample into chunks of this many elements.
inline constexpr Index kDropoutChunk = 4096;
struct Kernels {
  const char* isa = nullptr;
  int lanes = 0;  // floats of a vector

  // out = residual + mask * branch (residual may be null) over chunks of samples, each of
  // `sample_size` elements; chunk c is the chunk c % per_sample of sample c / per_sample.
  void (*dropout_add)(float* out, const float* residual, const float* branch, const Mask& mask,
                      Index sample_size, Index begin, Index end);

  void (*gelu_forward)(float* y, const float* x, Index begin, Index end);
  void (*gelu_backward)(float* dx, const float* dy, const float* x, Index begin, Index end);

  // Ranges of rows, but of columns in *_backward_weight.
  void (*layernorm_forward)(float* y, float* mean, float* rstd, const float* x, const float* gain,
                            const float* bias, float epsilon, Index C, Index begin, Index end);
  void (*layernorm_backward_input)(float* dx, const float* mean, const float* rstd, const float* dy,
                                   const float* x, const float* gain, bool add, Index C,
                                   Index begin, Index end);
  void (*layernorm_backward_weight)(float* dgain, float* dbias, const float* mean,
                                    const float* rstd, const float* dy, const float* x, Index R,
                                    Index C, Index begin, Index end);
  // dbias += column sums of dy (R, N); a range of columns.
  void (*bias_backward)(float* dbias, const float* dy, Index R, Index N, Index begin, Index end);

  // Rows of x, then columns of dwte and dwpe (null: none).
  void (*embedding_forward)(float* x, const int32_t* tokens, const float* wte, const float* wpe,
                            Index T, Index C, Index begin, Index end);
  void (*embedding_backward)(float* dwte, float* dwpe, const float* dx, const int32_t* tokens,
                             Index R, Index T, Index C, Index begin, Index end);

  // Rows; logits become gradients where `gradient`.
  void (*cross_entropy)(float* losses, float* logits, const int32_t* targets, float smoothing,
                        float scale, bool gradient, Index V, Index begin, Index end);

  // Heads: unit u is head u % H of sample u / H. lse may be null.
  void (*attention_forward)(float* out, float* lse, const float* q, const float* k, const float* v,
                            const AttentionShape& shape, const Mask& mask, Index begin, Index end);
  // dq, dk, dv are laid out as q, k, v.
  void (*attention_backward)(float* dq, float* dk, float* dv, float* delta, const float* dout,
                             const float* out, const float* lse, const float* q, const float* k,
                             const float* v, const AttentionShape& shape, const Mask& mask,
                             Index begin, Index end);

  void (*adamw)(float* param, float* m, float* v, const float* grad, const AdamWNumbers& numbers,
                Index begin, Index end);
  // partial[block - begin] for blocks begin ... end - 1 of kSumBlock elements each.
  void (*sum_squares)(double* partial, const float* x, Index n, Index begin, Index end);

  // What the machine can do at most, for benchmarks: `rounds` of independent multiply-adds in
  // registers (returns the floating-point operations done), and a = b + s * c over a range.
  double (*fma_loop)(Index rounds, float* sink);
  void (*triad)(float* a, const float* b, const float* c, float s, Index begin, Index end);
  // y[i] = exp(x[i]), the exponential that every kernel uses; for tests.
  void (*exp)(float* y, const float* x, Index begin, Index end);
};

}  // namespace chimera::cpu
