#pragma once
// The checks of CpuOps: each names the op, the tensor and both shapes.
#include "chimera/ops/ops.h"
#include "kernels.h"

namespace chimera::cpu {

struct Matrix {
  Index rows, columns;
};

// x as rows of its last dimension; F32 of rank 1 to 4.
Matrix as_matrix(const char* op, const char* name, const Tensor& x);
// x is F32 and has `size` numbers.
void check_size(const char* op, const char* name, const Tensor& x, Index size);
// x is F32 with `count` entries in its last dimension, and has the shape (R, count).
void check_matrix(const char* op, const char* name, const Tensor& x, Matrix shape);
// ids I32 (R), each in [0, V); an error names the first row that is not.
void check_ids(const char* op, const char* name, const Tensor& ids, Index R, Index V);
// Mask of the elements of samples with `sample_size` elements each.
Mask make_mask(const char* op, const Dropout& dropout, Index sample_size);

}  // namespace chimera::cpu
