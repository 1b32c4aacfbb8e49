#pragma once
// Memory is planned by name before it is allocated. The plan is pure shape arithmetic: the memory
// table, the planner and the allocator all read the same Layout, so what is predicted is what is
// used.
#include <algorithm>
#include <string>
#include <vector>

#include "chimera/tensor/tensor.h"

namespace chimera {

// A tensor's place in a Layout, wherever the Layout's memory will be.
struct Region {
  Index offset = 0;
  DType type = DType::F32;
  int rank = 0;
  std::array<Index, Tensor::kMaxRank> shape{};
  Index size() const;
  Index bytes() const { return size() * size_of(type); }
};

class Layout {
 public:
  static constexpr Index kAlignment = 128;  // a tensor of half the width still begins at 64
  Region add(const std::string& name, DType type, std::initializer_list<Index> shape);
  // Ends of several alternatives that share memory: the layout grows to the longest.
  void reserve(Index bytes) { bytes_ = std::max(bytes_, round_up(bytes, kAlignment)); }
  Index bytes() const { return bytes_; }

  struct Entry {
    std::string name;
    Region region;
  };
  const std::vector<Entry>& entries() const { return entries_; }

 private:
  std::vector<Entry> entries_;
  Index bytes_ = 0;
};

// A Layout's memory, not owned: weights of one version, one gradient accumulator, one slot, the
// workspace. Of a 16-bit `type` (weights in the type of computation) it is the memory of a Layout
// of F32 regions alone, narrowed: half the bytes, every tensor at half its offset and in that type.
struct Flat {
  std::byte* base = nullptr;
  DType type = DType::F32;
  Tensor at(const Region& region) const;
};

}  // namespace chimera
