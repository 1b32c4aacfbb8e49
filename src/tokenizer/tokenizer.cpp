#include "chimera/tokenizer/tokenizer.h"

#include <numeric>

#include "files/files.h"
#include "tables.h"

namespace chimera {

Tokenizer::Tokenizer(bpe::Tables tables)
    : tables_(std::make_shared<const bpe::Tables>(std::move(tables))) {}

Tokenizer Tokenizer::load(const Path& path) {
  namespace fs = std::filesystem;
  std::error_code ignored;  // what cannot be looked at cannot be opened either, and that says why
  ENSURE(fs::status(path, ignored).type() != fs::file_type::not_found, "there is no tokenizer at ",
         path.string(), "; name a folder with vocab.json and merges.txt, or a .tiktoken file");
  if (fs::is_directory(path, ignored)) {
    const Path vocab = path / "vocab.json", merges = path / "merges.txt";
    for (const Path& file : {vocab, merges})
      ENSURE(fs::status(file, ignored).type() != fs::file_type::not_found, path.string(),
             " has no ", file.filename().string(),
             "; a tokenizer's folder has vocab.json and merges.txt");
    return Tokenizer(bpe::parse_vocabulary(read_file(vocab, bpe::kMaxFileBytes), vocab.string(),
                                           read_file(merges, bpe::kMaxFileBytes), merges.string()));
  }
  const std::string name = path.filename().string();
  ENSURE(name != "vocab.json" && name != "merges.txt", path.string(),
         " is one of a tokenizer's two files; name the folder that holds both");
  return Tokenizer(bpe::parse_ranks(read_file(path, bpe::kMaxFileBytes), path.string()));
}

std::vector<std::pair<std::string, std::string>> Tokenizer::files() const {
  return {{"vocab.json", bpe::vocab_json(*tables_)}, {"merges.txt", bpe::merges_txt(*tables_)}};
}

void Tokenizer::save(const Path& folder) const {
  const auto contents = files();
  make_directories(folder);
  for (const auto& [name, content] : contents) write_file_atomically(folder / name, content);
}

void Tokenizer::save_tiktoken(const Path& file) const {
  write_file_atomically(file, bpe::ranks_text(*tables_));
}

std::string Tokenizer::decode(std::span<const TokenId> ids) const {
  std::string out;
  for (const TokenId id : ids) out += token_bytes(id);
  return out;
}

Index Tokenizer::vocabulary_size() const { return tables_->tokens.size(); }
Index Tokenizer::merge_count() const { return static_cast<Index>(tables_->merges.size()); }
std::optional<TokenId> Tokenizer::end_of_text() const { return tables_->end_of_text; }
std::vector<TokenId> Tokenizer::special_tokens() const { return tables_->specials; }
const std::string& Tokenizer::fingerprint() const { return tables_->fingerprint; }

std::string_view Tokenizer::token_bytes(TokenId id) const {
  ENSURE(id >= 0 && id < tables_->tokens.size(), "the token id ", id,
         " is outside the vocabulary of ", tables_->tokens.size(),
         " tokens; was the text encoded with another tokenizer?");
  return tables_->tokens[id];
}

}  // namespace chimera
