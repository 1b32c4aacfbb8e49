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
  void* data = base + region.offset;
  const auto& s = region.shape;
  switch (region.rank) {
    case 1: return {data, region.type, {s[0]}};
    case 2: return {data, region.type, {s[0], s[1]}};
    case 3: return {data, region.type, {s[0], s[1], s[2]}};
    default: return {data, region.type, {s[0], s[1], s[2], s[3]}};
  }
}

}  // namespace chimera
