// One word by BPE: always the lowest rank, the leftmost among equals.
#include <algorithm>
#include <functional>
#include <limits>

#include "tables.h"

namespace chimera::bpe {
namespace {

// Up to here a scan of all pairs per merge beats a heap.
constexpr std::size_t kShort = 48;

constexpr std::uint32_t kEnd = std::numeric_limits<std::uint32_t>::max();

TokenId merged_of(std::uint64_t found) { return static_cast<TokenId>(found & 0xFFFFFFFFu); }

void merge_short(const Tables& tables, std::string_view word, std::uint64_t stop,
                 std::vector<TokenId>& out) {
  TokenId ids[kShort];
  std::uint64_t pairs[kShort];  // pairs[i]: what ids[i], ids[i + 1] give; the rank decides
  std::size_t n = word.size();
  for (std::size_t i = 0; i < n; ++i) ids[i] = tables.byte_ids[static_cast<unsigned char>(word[i])];
  for (std::size_t i = 0; i + 1 < n; ++i) pairs[i] = tables.pairs.find(ids[i], ids[i + 1]);
  while (n > 1) {
    std::size_t best = 0;
    for (std::size_t i = 1; i + 1 < n; ++i)
      if (pairs[i] < pairs[best]) best = i;
    if (pairs[best] >= stop) break;
    ids[best] = merged_of(pairs[best]);
    --n;
    for (std::size_t i = best + 1; i < n; ++i) ids[i] = ids[i + 1];
    for (std::size_t i = best + 1; i + 1 < n; ++i) pairs[i] = pairs[i + 1];
    if (best + 1 < n) pairs[best] = tables.pairs.find(ids[best], ids[best + 1]);
    if (best > 0) pairs[best - 1] = tables.pairs.find(ids[best - 1], ids[best]);
  }
  out.insert(out.end(), ids, ids + n);
}

// A list of tokens by the position of their first byte, and a heap of pairs that may be stale.
class LongMerge {
 public:
  LongMerge(const Tables& tables, std::string_view word, LongWord& memory)
      : tables_(tables), m_(memory), n_(static_cast<std::uint32_t>(word.size())) {
    m_.ids.resize(n_);
    m_.next.resize(n_);
    m_.previous.resize(n_);
    m_.heap.clear();
    for (std::uint32_t i = 0; i < n_; ++i) {
      m_.ids[i] = tables.byte_ids[static_cast<unsigned char>(word[i])];
      m_.next[i] = i + 1 < n_ ? i + 1 : kEnd;
      m_.previous[i] = i > 0 ? i - 1 : kEnd;
    }
    for (std::uint32_t i = 0; i + 1 < n_; ++i)
      if (const auto found = pair_at(i); found != PairTable::kNone)
        m_.heap.push_back(entry(found, i));
    std::make_heap(m_.heap.begin(), m_.heap.end(), std::greater<>());
  }

  void run(std::uint64_t stop, std::vector<TokenId>& out) {
    while (!m_.heap.empty()) {
      std::pop_heap(m_.heap.begin(), m_.heap.end(), std::greater<>());
      const std::uint64_t top = m_.heap.back();
      m_.heap.pop_back();
      if (top >= stop) break;
      const auto at = static_cast<std::uint32_t>(top);
      const std::uint64_t found = pair_at(at);
      if (found != PairTable::kNone && entry(found, at) == top) merge(at, merged_of(found));
    }
    for (std::uint32_t i = 0; i != kEnd; i = m_.next[i]) out.push_back(m_.ids[i]);
  }

 private:
  static std::uint64_t entry(std::uint64_t found, std::uint32_t at) {
    return (found & ~std::uint64_t{0xFFFFFFFFu}) | at;
  }
  std::uint64_t pair_at(std::uint32_t at) const {
    if (m_.ids[at] < 0 || m_.next[at] == kEnd) return PairTable::kNone;
    return tables_.pairs.find(m_.ids[at], m_.ids[m_.next[at]]);
  }
  void push(std::uint32_t at) {
    const std::uint64_t found = pair_at(at);
    if (found == PairTable::kNone) return;
    m_.heap.push_back(entry(found, at));
    std::push_heap(m_.heap.begin(), m_.heap.end(), std::greater<>());
  }
  void merge(std::uint32_t at, TokenId merged) {
    const std::uint32_t gone = m_.next[at];
    m_.ids[at] = merged;
    m_.ids[gone] = -1;
    m_.next[at] = m_.next[gone];
    if (m_.next[at] != kEnd) m_.previous[m_.next[at]] = at;
    push(at);
    if (m_.previous[at] != kEnd) push(m_.previous[at]);
  }

  const Tables& tables_;
  LongWord& m_;
  std::uint32_t n_;
};

}  // namespace

void merge_word(const Tables& tables, std::string_view word, LongWord& memory,
                std::vector<TokenId>& out, std::uint32_t limit) {
  const std::uint64_t stop = std::uint64_t{limit} << 32;  // PairTable::kNone is above every stop
  if (word.size() <= kShort) return merge_short(tables, word, stop, out);
  ENSURE(word.size() < kEnd, "a single word has ", word.size(), " bytes; at most ", kEnd - 1,
         " can be encoded: break the text with white space");
  LongMerge(tables, word, memory).run(stop, out);
}

}  // namespace chimera::bpe
