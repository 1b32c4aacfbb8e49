#pragma once
// A hash table in one flat array: open addressing with linear probing, a power of two of slots, at
// most half full. Nothing is ever removed. What a key is, the entries know: an entry may hold it,
// or a place where it stands.
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace chimera::bpe {

// Entry{} is empty: `bool empty() const`; `std::uint64_t hash() const` of one that is not.
template <class Entry>
class FlatTable {
 public:
  // Empties the table; so many entries then find room without growing.
  void reserve(std::size_t count) {
    slots_.assign(std::bit_ceil(2 * count + 2), Entry{});
    used_ = 0;
  }

  // The entry that `same(entry)` holds for, or nullptr.
  template <class Same>
  const Entry* find(std::uint64_t hash, const Same& same) const {
    const Entry& entry = slots_[place(hash, same)];
    return entry.empty() ? nullptr : &entry;
  }

  // The entry that `same(entry)` holds for, or else `fresh`, added now. Valid until the next one.
  template <class Same>
  Entry& find_or_add(std::uint64_t hash, const Same& same, const Entry& fresh) {
    if (2 * (used_ + 1) > slots_.size()) grow();
    Entry& entry = slots_[place(hash, same)];
    if (entry.empty()) {
      entry = fresh;
      ++used_;
    }
    return entry;
  }

  std::size_t size() const { return used_; }

  template <class Visit>
  void for_each(const Visit& visit) const {
    for (const Entry& entry : slots_)
      if (!entry.empty()) visit(entry);
  }

 private:
  // Where the entry is or would be.
  template <class Same>
  std::size_t place(std::uint64_t hash, const Same& same) const {
    const std::size_t mask = slots_.size() - 1;
    std::size_t i = hash & mask;
    while (!slots_[i].empty() && !same(slots_[i])) i = (i + 1) & mask;
    return i;
  }

  void grow() {
    constexpr std::size_t kFirst = 1024;
    std::vector<Entry> old(slots_.size() < kFirst ? kFirst : 2 * slots_.size());
    old.swap(slots_);
    for (const Entry& entry : old)
      if (!entry.empty()) slots_[place(entry.hash(), [](const Entry&) { return false; })] = entry;
  }

  std::vector<Entry> slots_ = std::vector<Entry>(1);
  std::size_t used_ = 0;
};

}  // namespace chimera::bpe
