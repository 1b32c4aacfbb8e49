#include "chimera/tensor/tensor.h"

#include <algorithm>

namespace chimera {

Index size_of(DType type) {
  switch (type) {
    case DType::F64: return 8;
    case DType::F32:
    case DType::I32: return 4;
    case DType::BF16:
    case DType::F16: return 2;
  }
  Fail("unknown element type ", static_cast<int>(type));
}

std::string to_string(DType type) {
  switch (type) {
    case DType::F64: return "F64";
    case DType::F32: return "F32";
    case DType::I32: return "I32";
    case DType::BF16: return "BF16";
    case DType::F16: return "F16";
  }
  Fail("unknown element type ", static_cast<int>(type));
}

Tensor::Tensor(void* data, DType type, std::initializer_list<Index> shape)
    : data_(data), type_(type), rank_(static_cast<int>(shape.size())), size_(1) {
  ENSURE(rank_ <= kMaxRank, "a tensor has at most ", kMaxRank, " dimensions, not ", rank_);
  std::copy(shape.begin(), shape.end(), shape_.begin());
  for (const Index extent : shape) {
    ENSURE(extent >= 0, "a tensor has a negative extent in ", shape_text());
    size_ = checked_mul(size_, extent);
  }
}

std::string Tensor::shape_text() const {
  std::string out = "(";
  for (int i = 0; i < rank_; ++i) out += (i ? ", " : "") + std::to_string(dim(i));
  return out + ")";
}

Tensor Tensor::rows(Index first, Index count) const {
  ENSURE(rank_ >= 1 && first >= 0 && count >= 0 && first + count <= dim(0), "rows ", first, " to ",
         first + count, " are outside ", shape_text());
  Tensor out = *this;
  const Index row = dim(0) == 0 ? 0 : size_ / dim(0);
  out.data_ = static_cast<std::byte*>(data_) + first * row * size_of(type_);
  out.shape_[0] = count;
  out.size_ = count * row;
  return out;
}

Tensor Tensor::at(void* data) const {
  Tensor out = *this;
  out.data_ = data;
  return out;
}

Tensor Tensor::reshaped(std::initializer_list<Index> shape) const {
  Tensor out(data_, type_, shape);
  ENSURE(out.size_ == size_, shape_text(), " cannot be viewed as ", out.shape_text());
  return out;
}

}  // namespace chimera
