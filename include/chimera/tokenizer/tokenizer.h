#pragma once
// Byte-level BPE as GPT-2's. Encodes every string as tiktoken (files of ranks) or Hugging Face's
// tokenizers (vocab.json + merges.txt) would, and any other bytes too: see scanner.h for what is
// not UTF-8. encode and decode are exact inverses on all bytes.
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "chimera/base/file.h"

namespace chimera {

namespace bpe {
struct Tables;
class WordCache;
struct LongWord;
}  // namespace bpe

using TokenId = std::int32_t;

// Whether text such as "<|endoftext|>" in the input is ordinary text or that special token.
enum class SpecialTokens { AsText, Recognize };

// What one thread keeps between calls of encode: a cache of words and the memory for very long
// ones, about 0.3 MB. Belongs to one thread at a time; may serve any tokenizer.
class EncodeScratch {
 public:
  EncodeScratch();
  ~EncodeScratch();
  EncodeScratch(EncodeScratch&&) noexcept;
  EncodeScratch& operator=(EncodeScratch&&) noexcept;

 private:
  friend class Tokenizer;
  std::shared_ptr<const bpe::Tables> tables_;  // whose words the cache holds
  std::unique_ptr<bpe::WordCache> cache_;
  std::unique_ptr<bpe::LongWord> long_word_;
};

// An immutable value; copies share the tables. All members may be called from several threads.
class Tokenizer {
 public:
  // A folder with vocab.json and merges.txt, or a .tiktoken file (lines of base64 token and rank;
  // <|endoftext|> gets the number of lines as its id). Throws Error for anything that is not one
  // whole vocabulary: ids 0 … n-1 once each, all 256 bytes, every token a byte, the result of a
  // merge, or special.
  static Tokenizer load(const Path& path);

  // Writes vocab.json and merges.txt into `folder` (made where missing), byte for byte as Hugging
  // Face's tokenizers do. Throws where the ranks of a .tiktoken file follow from no list of merges.
  void save(const Path& folder) const;
  // The two files of save(): name and content.
  std::vector<std::pair<std::string, std::string>> files() const;
  // Throws where the format cannot say what this tokenizer does: it needs <|endoftext|> as the last
  // id and the only special token, ids in the order of merges, and each token's merge to follow
  // from the ranks.
  void save_tiktoken(const Path& file) const;

  std::vector<TokenId> encode(std::string_view bytes,
                              SpecialTokens special = SpecialTokens::AsText) const;
  // Appends to `out`; with a scratch that lives on, nothing is allocated but the growth of `out`.
  void encode(std::string_view bytes, SpecialTokens special, EncodeScratch& scratch,
              std::vector<TokenId>& out) const;
  // The same ids by the calling thread's whole team, for long texts.
  std::vector<TokenId> encode_parallel(std::string_view bytes,
                                       SpecialTokens special = SpecialTokens::AsText) const;

  // The bytes of the tokens one after the other: not UTF-8 where the ids stop within a character.
  // Throws on an id outside the vocabulary.
  std::string decode(std::span<const TokenId> ids) const;

  Index vocabulary_size() const;
  Index merge_count() const;
  std::optional<TokenId> end_of_text() const;  // the id of <|endoftext|>
  std::vector<TokenId> special_tokens() const;
  // Valid as long as this tokenizer or a copy of it.
  std::string_view token_bytes(TokenId id) const;
  // Checksum over tokens and merges: equal for equal content whatever the files' format.
  const std::string& fingerprint() const;

 private:
  friend class TokenizerTrainer;
  explicit Tokenizer(bpe::Tables tables);
  std::shared_ptr<const bpe::Tables> tables_;
};

// The text that ends a document.
inline constexpr std::string_view kEndOfText = "<|endoftext|>";

}  // namespace chimera
