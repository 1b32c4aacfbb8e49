#pragma once
// Inputs for the data layer's tests: compressed files, shards written by hand, a small tokenizer.
#include <zlib.h>
#include <zstd.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "chimera/base/check.h"
#include "chimera/tokenizer/trainer.h"
#include "support/support.h"

namespace chimera::test {

inline std::string gzipped(const std::string& text) {
  z_stream stream{};
  constexpr int kGzip = 16;
  if (deflateInit2(&stream, 6, Z_DEFLATED, MAX_WBITS + kGzip, 8, Z_DEFAULT_STRATEGY) != Z_OK)
    throw std::runtime_error("deflateInit2");
  std::string out(deflateBound(&stream, text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  if (deflate(&stream, Z_FINISH) != Z_STREAM_END) throw std::runtime_error("deflate");
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

inline std::string zstd_compressed(const std::string& text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
  return out;
}

// The bytes of a shard, whatever its header says.
template <class Token>
std::string shard_bytes(std::int32_t magic, std::int32_t version, std::int32_t count,
                        const std::vector<Token>& tokens) {
  std::string out(1024 + tokens.size() * sizeof(Token), '\0');
  const std::int32_t header[3] = {magic, version, count};
  std::memcpy(out.data(), header, sizeof header);
  if (!tokens.empty()) std::memcpy(out.data() + 1024, tokens.data(), tokens.size() * sizeof(Token));
  return out;
}

// A valid uint16 shard with the ids first, first + 1, ….
inline std::string counting_shard(std::int32_t tokens, std::uint16_t first = 0) {
  std::vector<std::uint16_t> ids;
  for (std::int32_t i = 0; i < tokens; ++i) ids.push_back(static_cast<std::uint16_t>(first + i));
  return shard_bytes(20240520, 1, tokens, ids);
}

// A vocabulary of 400 learned from `text`.
inline Tokenizer small_tokenizer(const std::string& text) {
  TokenizerTrainer trainer;
  trainer.add_part(text);
  trainer.end_text();
  TrainOptions options;
  options.vocab_size = 400;
  return trainer.finish(options);
}

// The message of the Error that f throws, "" where it throws none.
template <class F>
std::string error_of(const F& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

// A small generator for test inputs (xorshift).
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : state_(seed * 2654435761u + 88172645463325252u) {}
  std::size_t below(std::size_t n) {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return static_cast<std::size_t>((state_ >> 11) % n);
  }

 private:
  std::uint64_t state_;
};

}  // namespace chimera::test
