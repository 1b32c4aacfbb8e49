#include "utf8.h"

#include <cstdint>
#include <cstring>

#include "chimera/data/text_reader.h"

namespace chimera::data {
namespace {

bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

bool maybe_space(std::uint32_t c) {
  return c == 0x85 || c == 0xa0 || c == 0x1680 || c == 0x180e || (c >= 0x2000 && c <= 0x200b) ||
         c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x2060 || c == 0x3000 ||
         c == 0xfeff;
}

}  // namespace

bool ends_with_non_space(std::string_view text, std::size_t end) {
  const unsigned char last = static_cast<unsigned char>(text[end - 1]);
  if (last < 0x80) return last > 0x20;
  std::size_t begin = end - 1;
  while (begin > 0 && end - begin < 4 && is_continuation(text[begin])) --begin;
  const std::string_view character = text.substr(begin, end - begin);
  Utf8Counter counter;
  counter.add(character);
  const unsigned char lead = static_cast<unsigned char>(character[0]);
  if (lead < 0xc2 || counter.finish() > 0) return false;
  std::uint32_t code = lead & (0xffu >> (character.size() + 1));
  for (const char c : character.substr(1))
    code = code << 6 | (static_cast<unsigned char>(c) & 0x3fu);
  return !maybe_space(code);
}

std::size_t next_character(std::string_view text, std::size_t from) {
  while (from < text.size() && is_continuation(text[from])) ++from;
  return from;
}

void Utf8Counter::add_byte(unsigned char byte) {
  if (expected_ > 0) {
    if (byte >= low_ && byte <= high_) {
      low_ = 0x80;
      high_ = 0xbf;
      ++pending_;
      if (--expected_ == 0) pending_ = 0;
      return;
    }
    invalid_ += pending_;
    pending_ = expected_ = 0;
  }
  low_ = 0x80;
  high_ = 0xbf;
  if (byte < 0x80) return;
  if (byte < 0xc2 || byte > 0xf4) {
    ++invalid_;
    return;
  }
  pending_ = 1;
  expected_ = byte < 0xe0 ? 1 : byte < 0xf0 ? 2 : 3;
  if (byte == 0xe0) low_ = 0xa0;   // overlong
  if (byte == 0xed) high_ = 0x9f;  // surrogates
  if (byte == 0xf0) low_ = 0x90;   // overlong
  if (byte == 0xf4) high_ = 0x8f;  // beyond U+10FFFF
}

void Utf8Counter::add(std::string_view chunk) {
  std::size_t i = 0;
  while (i < chunk.size()) {
    std::uint64_t word = 0;
    if (expected_ == 0 && i + sizeof word <= chunk.size()) {
      std::memcpy(&word, chunk.data() + i, sizeof word);
      if ((word & 0x8080808080808080u) == 0) {
        i += sizeof word;
        continue;
      }
    }
    add_byte(static_cast<unsigned char>(chunk[i++]));
  }
}

Index Utf8Counter::finish() {
  const Index invalid = invalid_ + pending_;
  *this = Utf8Counter();
  return invalid;
}

}  // namespace chimera::data
