#pragma once
// A non-owning view of numbers on a device: pointer, type, shape (row-major, contiguous). Three
// things own memory (ParamStore, SlotPool, Workspace); everything else passes these views.
#include <array>
#include <cstddef>
#include <initializer_list>
#include <span>
#include <string>

#include "chimera/base/types.h"

namespace chimera {

enum class DType { F32, F64, BF16, F16, I32 };
Index size_of(DType type);
std::string to_string(DType type);

template <class T>
inline constexpr DType kDTypeOf = [] { static_assert(sizeof(T) == 0, "no DType for this type"); }();
template <>
inline constexpr DType kDTypeOf<float> = DType::F32;
template <>
inline constexpr DType kDTypeOf<double> = DType::F64;
template <>
inline constexpr DType kDTypeOf<std::int32_t> = DType::I32;

class Tensor {
 public:
  static constexpr int kMaxRank = 4;

  Tensor() = default;  // empty: no data, rank 0, size 0
  Tensor(void* data, DType type, std::initializer_list<Index> shape);

  bool empty() const { return data_ == nullptr; }
  DType type() const { return type_; }
  int rank() const { return rank_; }
  // Extent of dimension i; negative i counts from the last.
  Index dim(int i) const { return shape_[static_cast<std::size_t>(i < 0 ? rank_ + i : i)]; }
  Index size() const { return size_; }
  Index bytes() const { return size_ * size_of(type_); }
  void* raw() const { return data_; }
  std::string shape_text() const;  // "(8, 16, 97)"

  // The numbers as T; throws unless T is the type of the tensor.
  template <class T>
  T* as() const {
    ENSURE(type_ == kDTypeOf<T>, "a tensor of ", to_string(type_), " is read as ",
           to_string(kDTypeOf<T>));
    return static_cast<T*>(data_);
  }
  float* f32() const { return as<float>(); }
  std::int32_t* i32() const { return as<std::int32_t>(); }

  // `count` entries of dimension 0 from `first` on.
  Tensor rows(Index first, Index count) const;
  // Type and shape of this one in other memory.
  Tensor at(void* data) const;
  // The same numbers in another shape of equal size.
  Tensor reshaped(std::initializer_list<Index> shape) const;

 private:
  void* data_ = nullptr;
  DType type_ = DType::F32;
  int rank_ = 0;
  std::array<Index, kMaxRank> shape_{};
  Index size_ = 0;
};

inline std::span<std::byte> bytes_of(const Tensor& t) {
  return {static_cast<std::byte*>(t.raw()), static_cast<std::size_t>(t.bytes())};
}

}  // namespace chimera
