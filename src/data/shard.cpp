#include "chimera/data/shard.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <cstring>
#include <mutex>

#include "chimera/base/threads.h"

namespace chimera::data {
namespace {

static_assert(std::endian::native == std::endian::little, "shards are mapped as little-endian");

struct Format {
  std::int32_t magic, version;
  TokenWidth width;
};
constexpr std::array<Format, 2> kFormats{
    {{20240520, 1, TokenWidth::U16}, {20240801, 7, TokenWidth::U32}}};

const Format& format_of(TokenWidth width) { return kFormats[width == TokenWidth::U16 ? 0 : 1]; }

std::int32_t header_field(std::span<const std::byte> bytes, std::size_t field) {
  std::int32_t value = 0;
  std::memcpy(&value, bytes.data() + field * sizeof value, sizeof value);
  return value;
}

TokenWidth checked_width(std::span<const std::byte> bytes, const std::string& path) {
  const std::int32_t magic = header_field(bytes, 0), version = header_field(bytes, 1);
  for (const Format& format : kFormats) {
    if (format.magic != magic) continue;
    ENSURE(format.version == version, path, ": shard version ", version,
           " at byte 4; this program reads ", format.version, " with magic ", magic,
           ": make the shard again with `chimera data prepare`");
    return format.width;
  }
  Fail(path, " is not a token shard: its first number is ", magic,
       ", not 20240520 (uint16) or 20240801 (uint32); make shards with `chimera data prepare`");
}

template <class Token>
Token load(const std::byte* tokens, Index i) {
  Token value;
  std::memcpy(&value, tokens + i * static_cast<Index>(sizeof value), sizeof value);
  return value;
}

template <class Token, class Id>
void widen(const std::byte* tokens, Index begin, Index count, Id* out) {
  for (Index i = 0; i < count; ++i) out[i] = static_cast<Id>(load<Token>(tokens, begin + i));
}

template <class Id>
void read_tokens(const Shard& shard, Index begin, Index count, Id* out) {
  ENSURE(begin >= 0 && count >= 0 && count <= shard.tokens() && begin <= shard.tokens() - count,
         shard.path().string(), ": tokens ", begin, " to ", begin, " + ", count,
         " are asked for; the shard has ", shard.tokens());
  const std::byte* tokens = shard.bytes().data() + kShardHeaderBytes;
  if (shard.width() == TokenWidth::U16) {
    widen<std::uint16_t>(tokens, begin, count, out);
  } else {
    widen<std::uint32_t>(tokens, begin, count, out);
  }
}

template <class Token>
std::uint32_t largest(const std::byte* tokens, Index begin, Index end) {
  Token most = 0;
  for (Index i = begin; i < end; ++i) most = std::max(most, load<Token>(tokens, i));
  return most;
}

}  // namespace

TokenWidth token_width_for(Index vocabulary_size) {
  return vocabulary_size <= 65536 ? TokenWidth::U16 : TokenWidth::U32;
}

std::string to_string(TokenWidth width) { return width == TokenWidth::U16 ? "uint16" : "uint32"; }

Shard::Shard(const Path& path) : file_(path) {
  const std::string name = path.string();
  ENSURE(file_.size() >= kShardHeaderBytes, name, " has ", file_.size(),
         " bytes; a token shard has a header of ", kShardHeaderBytes,
         ": the file is cut short or no shard");
  width_ = checked_width(file_.bytes(), name);
  tokens_ = header_field(file_.bytes(), 2);
  ENSURE(tokens_ >= 0, name, ": the header counts ", tokens_, " tokens at byte 8");
  const Index expected = offset_of(tokens_);
  ENSURE(file_.size() == expected, name, " has ", file_.size(), " bytes, but its header counts ",
         tokens_, " ", to_string(width_), " tokens, which make ", expected, " bytes: the file is ",
         file_.size() < expected ? "cut short" : "too long", "; copy or prepare it again");
}

void Shard::read(Index begin, Index count, std::uint32_t* out) const {
  read_tokens(*this, begin, count, out);
}

void Shard::read(Index begin, Index count, std::int32_t* out) const {
  read_tokens(*this, begin, count, out);
}

std::optional<std::uint32_t> Shard::largest_id() const {
  if (tokens_ == 0) return std::nullopt;
  const std::byte* tokens = file_.bytes().data() + kShardHeaderBytes;
  std::mutex mutex;
  std::uint32_t most = 0;
  parallel_for(tokens_, Index{1} << 20, [&](Index begin, Index end) {
    const std::uint32_t found = width_ == TokenWidth::U16
                                    ? largest<std::uint16_t>(tokens, begin, end)
                                    : largest<std::uint32_t>(tokens, begin, end);
    const std::lock_guard lock(mutex);
    most = std::max(most, found);
  });
  return most;
}

ShardWriter::ShardWriter(const Path& folder, const std::string& prefix, TokenWidth width,
                         Index vocabulary_size, Index shard_tokens)
    : folder_(folder),
      prefix_(prefix),
      width_(width),
      vocabulary_size_(vocabulary_size),
      shard_tokens_(shard_tokens) {
  ENSURE(static_cast<int>(width) >= static_cast<int>(token_width_for(vocabulary_size)),
         "a vocabulary of ", vocabulary_size, " ids does not fit ", to_string(width),
         " tokens; write uint32");
  ENSURE(shard_tokens >= 1 && shard_tokens <= kMaxShardTokens, "a shard of ", shard_tokens,
         " tokens is asked for; the format holds 1 to ", kMaxShardTokens);
}

void ShardWriter::append(std::span<const TokenId> tokens) {
  for (const TokenId token : tokens)
    ENSURE(token >= 0 && token < vocabulary_size_, "the token id ", token,
           " is not below the vocabulary's size ", vocabulary_size_, "; it would not be readable");
  while (!tokens.empty()) {
    if (!file_) open_next();
    const std::size_t room = static_cast<std::size_t>(shard_tokens_ - in_shard_);
    const auto part = tokens.first(std::min(room, tokens.size()));
    if (width_ == TokenWidth::U16) {
      narrow_.resize(part.size());
      std::transform(part.begin(), part.end(), narrow_.begin(),
                     [](TokenId token) { return static_cast<std::uint16_t>(token); });
      file_->write(std::as_bytes(std::span(narrow_)));
    } else {
      file_->write(std::as_bytes(part));
    }
    in_shard_ += static_cast<Index>(part.size());
    total_ += static_cast<Index>(part.size());
    tokens = tokens.subspan(part.size());
    if (in_shard_ == shard_tokens_) finish();
  }
}

void ShardWriter::open_next() {
  ENSURE(done_.size() < 1000000,
         "more than 1,000,000 shards are needed; raise --shard-tokens from ", shard_tokens_);
  char number[16];
  std::snprintf(number, sizeof number, "-%06d.bin", static_cast<int>(done_.size()));
  file_.emplace(folder_ / (prefix_ + number));
  file_->write(std::string_view(std::array<char, kShardHeaderBytes>{}.data(), kShardHeaderBytes));
  in_shard_ = 0;
}

void ShardWriter::finish() {
  const Format& format = format_of(width_);
  const std::array<std::int32_t, 3> header{format.magic, format.version,
                                           static_cast<std::int32_t>(in_shard_)};
  file_->write_at(0, std::as_bytes(std::span(header)));
  const Path path = file_->path();
  const Index bytes = file_->size();
  file_->close();
  file_.reset();
  done_.push_back({path.filename().string(), in_shard_, bytes, checksum_of_file(path)});
}

std::vector<ShardInfo> ShardWriter::close() {
  if (file_) finish();
  return done_;
}

}  // namespace chimera::data
