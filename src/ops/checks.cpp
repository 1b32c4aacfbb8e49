#include "checks.h"

#include <cmath>

#include "chimera/base/rng.h"

namespace chimera::contract {

bool is_half(DType type) { return type == DType::BF16 || type == DType::F16; }

DType storage_of(const char* op, const char* name, const Tensor& x) {
  ENSURE(x.type() == DType::F32 || is_half(x.type()), op, ": ", name, " is ", to_string(x.type()),
         " ", x.shape_text(), "; F32, BF16 or F16 is needed");
  return x.type();
}

Rows as_matrix(const char* op, const char* name, const Tensor& x, DType type) {
  ENSURE(x.type() == type && x.rank() >= 1, op, ": ", name, " is ", to_string(x.type()), " ",
         x.shape_text(), "; rows of ", to_string(type), " are needed");
  Index rows = 1;
  for (int i = 0; i + 1 < x.rank(); ++i) rows *= x.dim(i);
  return {rows, x.dim(-1)};
}

void check_size(const char* op, const char* name, const Tensor& x, Index size, DType type) {
  ENSURE(x.type() == type && x.size() == size && !(x.rank() == 0 && size > 0), op, ": ", name,
         " is ", to_string(x.type()), " ", x.shape_text(), "; ", size, " numbers of ",
         to_string(type), " are needed");
}

void check_matrix(const char* op, const char* name, const Tensor& x, Rows shape, DType type) {
  const Rows m = as_matrix(op, name, x, type);
  ENSURE(m.R == shape.R && m.C == shape.C, op, ": ", name, " is ", x.shape_text(), "; ", shape.R,
         " rows of ", shape.C, " are needed");
}

void check_ids(const char* op, const char* name, const Tensor& ids, Index R) {
  ENSURE(ids.type() == DType::I32 && ids.size() == R, op, ": ", name, " are ",
         to_string(ids.type()), " ", ids.shape_text(), "; ", R, " of I32 are needed");
}

Mask make_mask(const char* op, const Dropout& dropout, Index sample_size) {
  const float p = dropout.probability;
  ENSURE(p >= 0 && p < 1, op, ": the dropout probability is ", p, "; it must be in [0, 1)");
  ENSURE(dropout.first_sample >= 0 && dropout.layer >= 0, op, ": dropout has first sample ",
         dropout.first_sample, " and layer ", dropout.layer, "; neither may be negative");
  Mask mask;
  if (p == 0) return mask;
  ENSURE(sample_size <= Index{1} << 34, op, ": a sample has ", sample_size,
         " elements; the random numbers of one sample end at ", Index{1} << 34);
  // uniform = (word >> 8) * 2^-24 >= p, as integers: exact, because scaling by 2^24 is.
  mask.threshold = static_cast<std::int32_t>(std::ceil(p * 0x1p24f));
  mask.scale = 1.0f / (1.0f - p);
  const auto key = philox_key(dropout.seed);
  mask.key[0] = key[0];
  mask.key[1] = key[1];
  mask.stream = narrow<std::uint32_t>(Index{4} * dropout.layer + static_cast<Index>(dropout.site));
  mask.first_sample = dropout.first_sample;
  return mask;
}

void fail_id(const char* op, const char* name, Index row, Index id, Index V) {
  Fail(op, ": row ", row, " of ", name, " is ", id, ", outside the vocabulary of ", V,
       "; the data and the model need the same tokenizer");
}

}  // namespace chimera::contract
