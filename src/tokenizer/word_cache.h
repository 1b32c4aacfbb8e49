#pragma once
// A direct-mapped cache of the ids of words that are several tokens. One entry is a cache line.
#include <algorithm>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "tables.h"

namespace chimera::bpe {

class WordCache {
 public:
  // The ids of the word, or an empty span.
  std::span<const TokenId> find(std::string_view word, std::uint64_t hash) const {
    const Entry& e = entries_[hash % kEntries];
    if (word.size() != e.size || std::memcmp(e.bytes, word.data(), e.size) != 0) return {};
    return {e.ids, e.count};
  }

  void put(std::string_view word, std::uint64_t hash, std::span<const TokenId> ids) {
    if (word.size() > sizeof Entry::bytes || ids.size() > std::size(Entry{}.ids)) return;
    Entry& e = entries_[hash % kEntries];
    e.size = static_cast<std::uint8_t>(word.size());
    e.count = static_cast<std::uint8_t>(ids.size());
    std::copy(word.begin(), word.end(), e.bytes);
    std::copy(ids.begin(), ids.end(), e.ids);
  }

  void clear() { std::fill(entries_.begin(), entries_.end(), Entry{}); }

 private:
  static constexpr std::size_t kEntries = 4096;
  struct alignas(64) Entry {
    std::uint8_t size = 0, count = 0;  // size 0: empty, since no word is
    char bytes[30] = {};
    TokenId ids[8] = {};
  };
  std::vector<Entry> entries_ = std::vector<Entry>(kEntries);
};

}  // namespace chimera::bpe
