#pragma once
// What the checks of several ops share. Each error names the op, the tensor and both shapes.
#include "chimera/ops/ops.h"

namespace chimera::contract {

bool is_half(DType type);
// The type of the op's activations, their gradients and weights, which is x's.
DType storage_of(const char* op, const char* name, const Tensor& x);
// x as rows of its last dimension; of `type` and rank 1 to 4.
Rows as_matrix(const char* op, const char* name, const Tensor& x, DType type = DType::F32);
// x is of `type` and has `size` numbers.
void check_size(const char* op, const char* name, const Tensor& x, Index size,
                DType type = DType::F32);
void check_matrix(const char* op, const char* name, const Tensor& x, Rows shape,
                  DType type = DType::F32);
void check_ids(const char* op, const char* name, const Tensor& ids, Index R);
// Mask of the elements of samples with `sample_size` elements each.
Mask make_mask(const char* op, const Dropout& dropout, Index sample_size);

Product check_matmul(const Tensor& out, const Tensor& a, Transpose transpose_a, const Tensor& b,
                     Transpose transpose_b, const Tensor& bias);
Rows check_bias_backward(const Tensor& dbias, const Tensor& dy);
Samples check_residual_forward(const Tensor& out, const Tensor& residual, const Tensor& branch,
                               const Dropout& dropout);
Rows check_layernorm_forward(const Tensor& y, const Tensor& mean, const Tensor& rstd,
                             const Tensor& x, const Tensor& gain, const Tensor& bias);
Rows check_layernorm_backward_input(const Tensor& dx, const Tensor& mean, const Tensor& rstd,
                                    const Tensor& dy, const Tensor& x, const Tensor& gain);
Rows check_layernorm_backward_weight(const Tensor& dgain, const Tensor& dbias, const Tensor& mean,
                                     const Tensor& rstd, const Tensor& dy, const Tensor& x);

}  // namespace chimera::contract
