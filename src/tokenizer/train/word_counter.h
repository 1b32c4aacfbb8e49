#pragma once
// How often each word was seen: the one structure of training that grows with the text.
#include <string>
#include <string_view>
#include <vector>

#include "chimera/base/hash.h"
#include "chimera/base/types.h"
#include "flat_table.h"

namespace chimera::bpe {

class WordCounter {
 public:
  struct Word {
    std::string_view bytes;
    Index count;
  };

  void add(std::string_view word, Index times) {
    const std::uint64_t hash = hash_bytes(word);
    const auto same = [&](const Entry& e) { return e.full_hash == hash && view(e) == word; };
    Entry& entry = table_.find_or_add(hash, same, {hash, bytes_.size(), word.size(), 0});
    if (entry.count == 0) bytes_ += word;
    entry.count += times;
  }

  // Valid until the next add.
  std::vector<Word> words() const {
    std::vector<Word> out;
    out.reserve(table_.size());
    table_.for_each([&](const Entry& e) { out.push_back({view(e), e.count}); });
    return out;
  }

 private:
  struct Entry {
    std::uint64_t full_hash = 0;
    std::size_t begin = 0, size = 0;  // in bytes_
    Index count = 0;
    bool empty() const { return count == 0; }
    std::uint64_t hash() const { return full_hash; }
  };
  std::string_view view(const Entry& e) const { return {bytes_.data() + e.begin, e.size}; }

  std::string bytes_;
  FlatTable<Entry> table_;
};

}  // namespace chimera::bpe
