#pragma once
// Host arrays of a storage type for one call of an op, to be made alike for two backends.
#include <algorithm>
#include <deque>

#include "chimera/tensor/half.h"
#include "kernels/kernel_support.h"

namespace chimera::test {

class TypedArrays {
 public:
  explicit TypedArrays(DType type) : type_(type) {}

  // Numbers of the type under test, of fp32, and ids; each call draws others.
  Tensor stored(std::initializer_list<Index> shape) { return add(type_, shape, 1); }
  Tensor fp32(std::initializer_list<Index> shape, float deviation = 1) {
    return add(DType::F32, shape, deviation);
  }
  Tensor fp64(Index n) {
    doubles_.emplace_back(static_cast<std::size_t>(n), -1.0);
    return {doubles_.back().data(), DType::F64, {n}};
  }
  // fp32 sums of numbers that an implementation may round to the type on the way.
  Tensor fp32_of_rounded(std::initializer_list<Index> shape) {
    rounded_.push_back(tensors_.size());
    return fp32(shape);
  }
  // Memory whose contents afterwards are nobody's business.
  Tensor scratch(std::initializer_list<Index> shape) {
    const Tensor t = add(DType::F32, shape, 1);
    tensors_.pop_back();
    return t;
  }
  Tensor ids(Index n, Index below) {
    ids_.push_back(random_ids(n, below, ++seed_));
    return tensor(ids_.back(), {n});
  }
  DType type() const { return type_; }

  // Every array of numbers as it is now, in the order of their making.
  std::vector<Doubles> numbers() const {
    std::vector<Doubles> out;
    for (const Tensor& t : tensors_) {
      Floats wide(static_cast<std::size_t>(t.size()));
      chimera::widen(wide.data(), t);
      out.push_back(widen(wide));
    }
    out.insert(out.end(), doubles_.begin(), doubles_.end());
    return out;
  }
  // Whether array i may differ by the rounding of the type under test.
  bool is_rounded(std::size_t i) const {
    return (i < tensors_.size() && tensors_[i].type() == type_) ||
           std::ranges::find(rounded_, i) != rounded_.end();
  }

 private:
  Tensor add(DType type, std::initializer_list<Index> shape, float deviation) {
    Index n = 1;
    for (const Index extent : shape) n *= extent;
    const Floats numbers = random_floats(n, ++seed_, deviation);
    bytes_.emplace_back(static_cast<std::size_t>(n * size_of(type)));
    const Tensor t(bytes_.back().data(), type, shape);
    round_into(t, numbers.data());
    tensors_.push_back(t);
    return t;
  }

  DType type_;
  std::uint64_t seed_ = 0;
  std::deque<std::vector<std::byte>> bytes_;
  std::vector<Tensor> tensors_;
  std::vector<std::size_t> rounded_;
  std::deque<Ids> ids_;
  std::deque<Doubles> doubles_;
};

}  // namespace chimera::test
