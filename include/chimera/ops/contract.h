#pragma once
// What the check of an op's contract finds out and hands to the backend: the sizes that it computes
// with, and its dropout mask. The checks themselves stand beside the public methods, in src/ops.
#include "chimera/ops/numbers.h"
#include "chimera/tensor/tensor.h"

namespace chimera {

struct AdamWStep;
struct AdamWTensor;
struct Dropout;

namespace contract {

struct Rows {
  Index R, C;
};
struct Product {
  Index M, N, K;
};
struct Lookup {
  Index R, T, C, V;  // T: rows of a sample
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

// Of attention over qkv (B, T, 3, C).
Attention attention(const char* op, const Tensor& qkv, Index H, const Dropout& dropout);
// The step's numbers for one tensor of its list.
AdamWNumbers adamw_numbers(const AdamWTensor& tensor, const AdamWStep& step);

// The error for id `id` in row `row` of `name`, outside a vocabulary of V. Where ids are read
// differs from backend to backend; what is said does not.
[[noreturn]] void fail_id(const char* op, const char* name, Index row, Index id, Index V);

}  // namespace contract
}  // namespace chimera
