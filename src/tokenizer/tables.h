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

#include "chimera/tokenizer/tokenizer.h"
#include "hash.h"

namespace chimera::bpe {

struct Merge {
  TokenId left, right, merged;
  std::uint32_t rank;  // the lowest goes first, the leftmost among equals
};

// (left, right) -> rank << 32 | merged. Flat, open addressing, at most half full.
class PairTable {
 public:
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};

  void build(const std::vector<Merge>& merges);
  std::uint64_t find(TokenId left, TokenId right) const {
    const std::uint64_t key = pair_key(left, right);
    for (std::size_t i = hash_pair(key) & mask_;; i = (i + 1) & mask_) {
      if (slots_[i].key == key) return slots_[i].value;
      if (slots_[i].key == kNone) return kNone;
    }
  }

 private:
  struct Slot {
    std::uint64_t key = kNone, value = kNone;
  };
  std::vector<Slot> slots_ = std::vector<Slot>(1);
  std::size_t mask_ = 0;
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

// Bytes -> id for a part of the tokens. Flat, open addressing, at most half full.
class WordTable {
 public:
  static constexpr TokenId kNone = -1;

  void reserve(std::size_t count);
  // Returns the id that stands there already, or kNone after adding.
  TokenId add(const TokenBytes& tokens, TokenId id);
  TokenId find(const TokenBytes& tokens, std::string_view word, std::uint64_t hash) const {
    const auto tag = static_cast<std::uint32_t>(hash >> 32);
    for (std::size_t i = hash & mask_;; i = (i + 1) & mask_) {
      if (slots_[i].id == kNone) return kNone;
      if (slots_[i].tag == tag && tokens[slots_[i].id] == word) return slots_[i].id;
    }
  }
  TokenId find(const TokenBytes& tokens, std::string_view word) const {
    return find(tokens, word, hash_bytes(word));
  }

 private:
  struct Slot {
    std::uint32_t tag = 0;
    TokenId id = kNone;
  };
  std::vector<Slot> slots_ = std::vector<Slot>(1);
  std::size_t mask_ = 0;
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
