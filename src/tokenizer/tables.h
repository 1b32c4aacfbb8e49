#pragma once
// What a loaded tokenizer is, whatever files it came from: tokens, merges in the order of ranks,
// and two hash tables built from them.
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "chimera/base/hash.h"
#include "chimera/tokenizer/tokenizer.h"
#include "flat_table.h"

namespace chimera::bpe {

struct Merge {
  TokenId left, right, merged;
  std::uint32_t rank;  // the lowest goes first, the leftmost among equals
};

inline std::uint64_t pair_key(TokenId left, TokenId right) {
  return std::uint64_t{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right);
}

// An entry of a table whose keys are pairs of ids. Multiplicative hashing (Knuth, vol. 3, 6.4), the
// high half folded onto the low one, which has the place.
template <class Value>
struct PairEntry {
  static constexpr std::uint64_t kNoKey = ~std::uint64_t{0};
  std::uint64_t key = kNoKey;
  Value value = {};
  bool empty() const { return key == kNoKey; }
  std::uint64_t hash() const { return hash(key); }
  static std::uint64_t hash(std::uint64_t key) {
    const std::uint64_t product = key * 0x9E3779B97F4A7C15u;
    return product ^ product >> 32;
  }
};

// (left, right) -> rank << 32 | merged.
class PairTable {
 public:
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};

  void build(const std::vector<Merge>& merges);
  std::uint64_t find(TokenId left, TokenId right) const {
    const std::uint64_t key = pair_key(left, right);
    const auto* found = table_.find(Entry::hash(key), [&](const Entry& e) { return e.key == key; });
    return found == nullptr ? kNone : found->value;
  }

 private:
  using Entry = PairEntry<std::uint64_t>;
  FlatTable<Entry> table_;
};

// The bytes of all tokens, one after the other.
class TokenBytes {
 public:
  void add(std::string_view token) {
    bytes_ += token;
    ends_.push_back(bytes_.size());
  }
  TokenId size() const { return static_cast<TokenId>(ends_.size()); }
  std::string_view operator[](TokenId id) const {
    const std::size_t begin = id == 0 ? 0 : ends_[static_cast<std::size_t>(id) - 1];
    return {bytes_.data() + begin, ends_[static_cast<std::size_t>(id)] - begin};
  }

 private:
  std::string bytes_;
  std::vector<std::size_t> ends_;
};

// Bytes -> id for a part of the tokens, whose bytes stand in TokenBytes.
class WordTable {
 public:
  static constexpr TokenId kNone = -1;

  void reserve(std::size_t count) { table_.reserve(count); }
  // Returns the id that stands there already, or kNone after adding.
  TokenId add(const TokenBytes& tokens, TokenId id);
  TokenId find(const TokenBytes& tokens, std::string_view word, std::uint64_t hash) const {
    const std::uint32_t tag = tag_of(hash);
    const Entry* found =
        table_.find(tag, [&](const Entry& e) { return e.tag == tag && tokens[e.id] == word; });
    return found == nullptr ? kNone : found->id;
  }
  TokenId find(const TokenBytes& tokens, std::string_view word) const {
    return find(tokens, word, hash_bytes(word));
  }

 private:
  // Half of the hash gives the place and is compared before the bytes.
  static std::uint32_t tag_of(std::uint64_t hash) { return static_cast<std::uint32_t>(hash >> 32); }
  struct Entry {
    std::uint32_t tag = 0;
    TokenId id = kNone;
    bool empty() const { return id == kNone; }
    std::uint64_t hash() const { return tag; }
  };
  FlatTable<Entry> table_;
};

// How a .tiktoken file's ranks may merge: as a list of merges (each token from one pair), or, for
// files that no BPE training made, by every split of every token.
enum class MergeRule { ListedPairs, AllSplits };

struct Tables {
  TokenBytes tokens;              // by id
  std::vector<TokenId> specials;  // ascending
  std::vector<Merge> merges;      // ascending ranks; for AllSplits also by left, right
  MergeRule rule = MergeRule::ListedPairs;

  // The rest follows from the above: see finish().
  std::array<TokenId, 256> byte_ids{};
  PairTable pairs;
  WordTable words;                   // tokens that as a whole word are one token
  std::vector<bool> special_starts;  // by first byte
  std::optional<TokenId> end_of_text;
  std::string fingerprint;

  bool is_special(TokenId id) const;
  void index_merges();  // byte_ids and pairs; all 256 bytes must be among the tokens
  void finish();        // all derived members
};

inline constexpr std::uint32_t kAllRanks = 0xFFFFFFFFu;

// The ids of one word by the merges of ranks below `limit`, appended; the word table is not asked.
struct LongWord;
void merge_word(const Tables& tables, std::string_view word, LongWord& memory,
                std::vector<TokenId>& out, std::uint32_t limit = kAllRanks);

// Memory of merge_word for words that are too long for the stack.
struct LongWord {
  std::vector<TokenId> ids;
  std::vector<std::uint32_t> next, previous;
  std::vector<std::uint64_t> heap;  // rank << 32 | position
};

}  // namespace chimera::bpe
