#pragma once
// Token shards, byte for byte llm.c's: a header of 256 little-endian int32 (magic, version, number
// of tokens, zeros), then the tokens. Magic 20240520, version 1: uint16. Magic 20240801, version 7
// (llm.c's Llama 3 variant): uint32. The file's size is exactly header + tokens * width.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "chimera/base/file.h"
#include "chimera/base/types.h"
#include "chimera/tokenizer/tokenizer.h"

namespace chimera::data {

enum class TokenWidth : int { U16 = 2, U32 = 4 };  // bytes per token

constexpr Index kShardHeaderBytes = 1024;
constexpr Index kMaxShardTokens = 0x7fffffff;  // the count in the header is an int32

// The narrower width that holds the ids 0 … vocabulary_size - 1.
TokenWidth token_width_for(Index vocabulary_size);
std::string to_string(TokenWidth width);  // "uint16", "uint32"

// A shard opened for reading: mapped, header and exact size validated, ids unchecked. Reads are
// const and thread-safe. (Cutting the file short while it is mapped ends the process.)
class Shard {
 public:
  explicit Shard(const Path& path);

  const Path& path() const { return file_.path(); }
  Index tokens() const { return tokens_; }
  TokenWidth width() const { return width_; }

  // out[i] = token begin + i, for i < count; throws unless 0 <= begin and begin + count <=
  // tokens().
  void read(Index begin, Index count, std::uint32_t* out) const;
  void read(Index begin, Index count, std::int32_t* out) const;  // the same bits
  // Byte offset of a token in the file, for messages.
  Index offset_of(Index token) const {
    return kShardHeaderBytes + token * static_cast<Index>(width_);
  }
  // The largest id, by a scan of the whole file with the calling thread's team; nothing when it has
  // no tokens.
  std::optional<std::uint32_t> largest_id() const;
  std::span<const std::byte> bytes() const { return file_.bytes(); }

 private:
  MappedFile file_;
  Index tokens_ = 0;
  TokenWidth width_ = TokenWidth::U16;
};

struct ShardInfo {
  std::string name;  // file name without folder
  Index tokens = 0;
  Index bytes = 0;       // of the file
  std::string checksum;  // of the file, as checksum_of_file
};

// Writes folder/prefix-000000.bin, -000001.bin, …, each but the last with exactly `shard_tokens`
// tokens. Until a shard is complete its header says 0 tokens, which no reader accepts.
class ShardWriter {
 public:
  // Refuses a width too narrow for the vocabulary, and shard_tokens outside 1 … kMaxShardTokens.
  ShardWriter(const Path& folder, const std::string& prefix, TokenWidth width,
              Index vocabulary_size, Index shard_tokens);

  // Throws, before anything is written, when an id is not below the vocabulary's size.
  void append(std::span<const TokenId> tokens);
  Index tokens() const { return total_; }
  // Completes the last shard and tells what was written. Without tokens there are no files.
  std::vector<ShardInfo> close();

 private:
  void open_next();
  void finish();

  Path folder_;
  std::string prefix_;
  TokenWidth width_;
  Index vocabulary_size_, shard_tokens_;
  Index total_ = 0, in_shard_ = 0;
  std::optional<OutputFile> file_;
  std::vector<std::uint16_t> narrow_;
  std::vector<ShardInfo> done_;
};

}  // namespace chimera::data
