#pragma once
// What every backend checks before it computes, one function per op of ops.h: types and shapes,
// never the numbers behind the pointers. Each error names the op, the tensor and both shapes.
// Returned: the sizes that the op computes with.
#include "chimera/ops/numbers.h"
#include "chimera/ops/ops.h"

namespace chimera::contract {

struct Rows {
  Index R, C;
};
struct Product {
  Index M, N, K;
};
struct Lookup {
  Index R, C, V;
  Mask mask;
};
struct Attention {
  AttentionShape shape;
  Mask mask;
};
struct Samples {
  Index B, size;  // samples, numbers of one
  Mask mask;
};

Product matmul(const Tensor& out, const Tensor& a, Transpose transpose_a, const Tensor& b,
               Transpose transpose_b, const Tensor& bias);
Rows bias_backward(const Tensor& dbias, const Tensor& dy);

Lookup embedding_forward(const Tensor& x, const Tensor& tokens, const Tensor& wte,
                         const Tensor& wpe, Index T, const Dropout& dropout);
Lookup embedding_backward(const Tensor& dwte, const Tensor& dwpe, const Tensor& dx,
                          const Tensor& tokens, Index T, const Dropout& dropout);

Rows layernorm_forward(const Tensor& y, const Tensor& mean, const Tensor& rstd, const Tensor& x,
                       const Tensor& gain, const Tensor& bias);
Rows layernorm_backward_input(const Tensor& dx, const Tensor& mean, const Tensor& rstd,
                              const Tensor& dy, const Tensor& x, const Tensor& gain);
Rows layernorm_backward_weight(const Tensor& dgain, const Tensor& dbias, const Tensor& mean,
                               const Tensor& rstd, const Tensor& dy, const Tensor& x);

void gelu_forward(const Tensor& y, const Tensor& x);
void gelu_backward(const Tensor& dx, const Tensor& dy, const Tensor& x);

Attention attention_forward(const Tensor& out, const Tensor& lse, const Tensor& qkv, Index H,
                            const Dropout& dropout);
Attention attention_backward(const Tensor& dqkv, const Tensor& delta, const Tensor& dout,
                             const Tensor& out, const Tensor& lse, const Tensor& qkv, Index H,
                             const Dropout& dropout);
AttentionShape attention_cached(const Tensor& out, const Tensor& keys, const Tensor& values,
                                const Tensor& qkv, Index first, Index H);

Samples residual_forward(const Tensor& out, const Tensor& residual, const Tensor& branch,
                         const Dropout& dropout);
Samples residual_backward(const Tensor& dbranch, const Tensor& dout, const Dropout& dropout);

Rows cross_entropy(const Tensor& losses, const Tensor& logits, const Tensor& targets,
                   float smoothing);

AdamWNumbers adamw(const AdamWTensor& tensor, const AdamWStep& step);
void sum_squares(std::span<const double> sums, std::span<const Tensor> tensors);
Rows sum_rows(const Tensor& sums, const Tensor& x);
void convert(const Tensor& out, const Tensor& x);

// The error for id `id` in row `row` of `name`, outside a vocabulary of V. Where ids are read
// differs from backend to backend; what is said does not.
[[noreturn]] void fail_id(const char* op, const char* name, Index row, Index id, Index V);

}  // namespace chimera::contract
