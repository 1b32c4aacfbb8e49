#pragma once
// The classes of code points that GPT-2's pattern tells apart.
#include <cstdint>
#include <string_view>

namespace chimera::bpe {

enum class CharClass : std::uint8_t { Other, Letter, Number, Space };

// Generated (scripts/generate_unicode_tables.py): page of each 256 code points, two bits each.
extern const std::uint8_t kUnicodePageOf[0x1100];
extern const std::uint64_t kUnicodePages[][8];

inline CharClass class_of(std::uint32_t code) {
  const std::uint64_t bits = kUnicodePages[kUnicodePageOf[code >> 8]][(code & 0xFF) >> 5];
  return static_cast<CharClass>(bits >> (2 * (code & 31)) & 3);
}

struct Character {
  CharClass type;
  std::uint8_t size;  // bytes
};

// The character at `at` < `end`, by RFC 3629; a byte that begins no well-formed sequence is one
// Other.
inline Character next_character(const char* at, const char* end) {
  const auto byte = [&](int i) { return static_cast<std::uint8_t>(at[i]); };
  const auto tail = [&](int i) { return (byte(i) & 0xC0) == 0x80; };
  const std::uint32_t first = byte(0);
  const auto left = end - at;
  if (first < 0x80) return {class_of(first), 1};
  if (first >= 0xC2 && first < 0xE0 && left >= 2 && tail(1))
    return {class_of((first & 0x1F) << 6 | (byte(1) & 0x3F)), 2};
  if ((first & 0xF0) == 0xE0 && left >= 3 && tail(1) && tail(2)) {
    const std::uint32_t code = (first & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
    if (code >= 0x800 && (code < 0xD800 || code > 0xDFFF)) return {class_of(code), 3};
  }
  if ((first & 0xF8) == 0xF0 && left >= 4 && tail(1) && tail(2) && tail(3)) {
    const std::uint32_t code =
        (first & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F);
    if (code >= 0x10000 && code <= 0x10FFFF) return {class_of(code), 4};
  }
  return {CharClass::Other, 1};
}

}  // namespace chimera::bpe
