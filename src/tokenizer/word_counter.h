#pragma once
// How often each word was seen: the one structure of training that grows with the text.
#include <string>
#include <string_view>
#include <vector>

#include "chimera/base/types.h"
#include "hash.h"

namespace chimera::bpe {

class WordCounter {
 public:
  struct Word {
    std::string_view bytes;
    Index count;
  };

  void add(std::string_view word, Index times) {
    if (2 * (used_ + 1) > entries_.size()) grow();
    const std::uint64_t hash = hash_bytes(word);
    for (std::size_t i = hash & (entries_.size() - 1);; i = (i + 1) & (entries_.size() - 1)) {
      Entry& e = entries_[i];
      if (e.count == 0) {
        e = {hash, bytes_.size(), word.size(), times};
        bytes_ += word;
        ++used_;
        return;
      }
      if (e.hash == hash && view(e) == word) {
        e.count += times;
        return;
      }
    }
  }

  // Valid until the next add.
  std::vector<Word> words() const {
    std::vector<Word> out;
    out.reserve(used_);
    for (const Entry& e : entries_)
      if (e.count > 0) out.push_back({view(e), e.count});
    return out;
  }

 private:
  struct Entry {
    std::uint64_t hash = 0;
    std::size_t begin = 0, size = 0;
    Index count = 0;  // 0: empty
  };
  std::string_view view(const Entry& e) const { return {bytes_.data() + e.begin, e.size}; }

  void grow() {
    std::vector<Entry> old(entries_.empty() ? 1024 : 2 * entries_.size());
    old.swap(entries_);
    for (const Entry& e : old) {
      if (e.count == 0) continue;
      std::size_t i = e.hash & (entries_.size() - 1);
      while (entries_[i].count > 0) i = (i + 1) & (entries_.size() - 1);
      entries_[i] = e;
    }
  }

  std::string bytes_;
  std::vector<Entry> entries_;  // a power of two, at most half full
  std::size_t used_ = 0;
};

}  // namespace chimera::bpe
