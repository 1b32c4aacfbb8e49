#include "chimera/tensor/layout.h"

namespace chimera {

Index Region::size() const {
  Index n = 1;
  for (int i = 0; i < rank; ++i) n = checked_mul(n, shape[static_cast<std::size_t>(i)]);
  return n;
}

Region Layout::add(const std::string& name, DType type, std::initializer_list<Index> shape) {
  ENSURE(shape.size() >= 1 && shape.size() <= Tensor::kMaxRank, name, " has ", shape.size(),
         " dimensions");
  Region region{bytes_, type, static_cast<int>(shape.size()), {}};
  std::copy(shape.begin(), shape.end(), region.shape.begin());
  bytes_ = checked_add(bytes_, round_up(region.bytes(), kAlignment));
  entries_.push_back({name, region});
  return region;
}

Tensor Flat::at(const Region& region) const {
  ENSURE(base != nullptr, "memory of a layout is used before it is allocated");
  const bool narrowed = type != DType::F32;
  ENSURE(!narrowed || region.type == DType::F32, "a tensor of ", to_string(region.type),
         " is in a layout that is kept in ", to_string(type));
  const DType stored = narrowed ? type : region.type;
  void* data = base + region.offset / size_of(region.type) * size_of(stored);
  const auto& s = region.shape;
  switch (region.rank) {
    case 1: return {data, stored, {s[0]}};
    case 2: return {data, stored, {s[0], s[1]}};
    case 3: return {data, stored, {s[0], s[1], s[2]}};
    default: return {data, stored, {s[0], s[1], s[2], s[3]}};
  }
}

}  // namespace chimera
