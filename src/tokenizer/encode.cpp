// Text to ids: special tokens cut it, the scanner makes words, tables and merges make ids.
#include <algorithm>

#include "chimera/base/threads.h"
#include "chimera/tokenizer/scanner.h"
#include "chimera/tokenizer/tokenizer.h"
#include "word_cache.h"

namespace chimera {
namespace {

// A cache costs some 20 microseconds to make: shorter texts go without.
constexpr std::size_t kCacheFrom = std::size_t{16} << 10;

constexpr std::size_t kPiece = std::size_t{1} << 20;  // of encode_parallel

struct Found {
  std::size_t at;  // text.size() where there is none
  TokenId id;
};

// The first special token from `from` on; the longest where several begin.
Found find_special(const bpe::Tables& tables, std::string_view text, std::size_t from) {
  for (std::size_t at = from; at < text.size(); ++at) {
    if (!tables.special_starts[static_cast<unsigned char>(text[at])]) continue;
    TokenId best = -1;
    for (const TokenId id : tables.specials)
      if (text.substr(at).starts_with(tables.tokens[id]) &&
          (best < 0 || tables.tokens[id].size() > tables.tokens[best].size()))
        best = id;
    if (best >= 0) return {at, best};
  }
  return {text.size(), -1};
}

void encode_words(const bpe::Tables& tables, std::string_view text, bpe::WordCache* cache,
                  bpe::LongWord& memory, std::vector<TokenId>& out) {
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = word_end(text, begin);
    const std::string_view word = text.substr(begin, end - begin);
    begin = end;
    const std::uint64_t hash = hash_bytes(word);
    if (const TokenId id = tables.words.find(tables.tokens, word, hash);
        id != bpe::WordTable::kNone) {
      out.push_back(id);
      continue;
    }
    if (cache != nullptr) {
      if (const auto ids = cache->find(word, hash); !ids.empty()) {
        out.insert(out.end(), ids.begin(), ids.end());
        continue;
      }
    }
    const std::size_t first = out.size();
    bpe::merge_word(tables, word, memory, out);
    if (cache != nullptr) cache->put(word, hash, std::span(out).subspan(first));
  }
}

}  // namespace

EncodeScratch::EncodeScratch() : long_word_(std::make_unique<bpe::LongWord>()) {}
EncodeScratch::~EncodeScratch() = default;
EncodeScratch::EncodeScratch(EncodeScratch&&) noexcept = default;
EncodeScratch& EncodeScratch::operator=(EncodeScratch&&) noexcept = default;

void Tokenizer::encode(std::string_view bytes, SpecialTokens special, EncodeScratch& scratch,
                       std::vector<TokenId>& out) const {
  // The second call with one scratch, or a long text, is worth a cache.
  const bool again = scratch.tables_ == tables_;
  if (!again && scratch.cache_) scratch.cache_->clear();
  scratch.tables_ = tables_;
  if (!scratch.cache_ && (again || bytes.size() >= kCacheFrom))
    scratch.cache_ = std::make_unique<bpe::WordCache>();
  const auto words = [&](std::string_view text) {
    encode_words(*tables_, text, scratch.cache_.get(), *scratch.long_word_, out);
  };
  if (special == SpecialTokens::AsText) return words(bytes);
  for (std::size_t begin = 0; begin < bytes.size();) {
    const Found found = find_special(*tables_, bytes, begin);
    words(bytes.substr(begin, found.at - begin));
    if (found.id < 0) break;
    out.push_back(found.id);
    begin = found.at + tables_->tokens[found.id].size();
  }
}

std::vector<TokenId> Tokenizer::encode(std::string_view bytes, SpecialTokens special) const {
  EncodeScratch scratch;
  std::vector<TokenId> out;
  encode(bytes, special, scratch, out);
  return out;
}

std::vector<TokenId> Tokenizer::encode_parallel(std::string_view bytes,
                                                SpecialTokens special) const {
  std::vector<std::string_view> pieces;
  while (!bytes.empty()) {
    const std::size_t cut = next_cut(bytes, std::min(bytes.size(), kPiece));
    pieces.push_back(bytes.substr(0, cut));
    bytes.remove_prefix(cut);
  }
  std::vector<std::vector<TokenId>> parts(pieces.size());
  parallel_for(static_cast<Index>(pieces.size()), 1, [&](Index begin, Index end) {
    EncodeScratch scratch;
    for (Index i = begin; i < end; ++i) encode(pieces[i], special, scratch, parts[i]);
  });
  std::size_t total = 0;
  for (const auto& part : parts) total += part.size();
  std::vector<TokenId> out;
  out.reserve(total);
  for (const auto& part : parts) out.insert(out.end(), part.begin(), part.end());
  return out;
}

}  // namespace chimera
