#include "chimera/tokenizer/scanner.h"

#include <array>

#include "scan/unicode.h"

namespace chimera {
namespace {

using bpe::Character;
using bpe::CharClass;
using bpe::next_character;

constexpr bool ascii_space(unsigned char c) { return c == ' ' || (c >= 9 && c <= 13); }

// Class of each ASCII byte; 4 for the others.
constexpr std::array<std::uint8_t, 256> kAscii = [] {
  std::array<std::uint8_t, 256> out{};
  for (unsigned c = 0; c < 256; ++c) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    const auto type = letter                                       ? CharClass::Letter
                      : c >= '0' && c <= '9'                       ? CharClass::Number
                      : ascii_space(static_cast<unsigned char>(c)) ? CharClass::Space
                                                                   : CharClass::Other;
    out[c] = c < 0x80 ? static_cast<std::uint8_t>(type) : 4;
  }
  return out;
}();

Character character(const char* at, const char* end) {
  const std::uint8_t ascii = kAscii[static_cast<unsigned char>(*at)];
  if (ascii < 4) return {static_cast<CharClass>(ascii), 1};
  return next_character(at, end);
}

// The end of the run of characters of one class.
const char* run_end(const char* at, const char* end, CharClass type) {
  while (at < end) {
    const Character c = character(at, end);
    if (c.type != type) break;
    at += c.size;
  }
  return at;
}

// The length of 's 't 'm 'd 'll 've 're, or 0.
std::size_t contraction(const char* at, const char* end) {
  if (end - at < 2) return 0;
  const char a = at[1];
  if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
  if (end - at < 3) return 0;
  const char b = at[2];
  const bool three = (a == 'l' && b == 'l') || (a == 'v' && b == 'e') || (a == 'r' && b == 'e');
  return three ? 3 : 0;
}

// A run of white space, all but its last character where something follows: \s+(?!\S)|\s+
const char* space_end(const char* at, const char* end) {
  const char* last = at;
  const char* next = at;
  while (next < end) {
    const Character c = character(next, end);
    if (c.type != CharClass::Space) break;
    last = next;
    next += c.size;
  }
  return next == end || last == at ? next : last;
}

bool is_cut(std::string_view text, std::size_t at) {
  const auto before = static_cast<unsigned char>(text[at - 1]);
  return before < 0x80 && !ascii_space(before) && ascii_space(static_cast<unsigned char>(text[at]));
}

}  // namespace

std::size_t word_end(std::string_view text, std::size_t begin) {
  const char* const start = text.data();
  const char* const end = start + text.size();
  const char* at = start + begin;
  if (*at == '\'') {
    if (const std::size_t size = contraction(at, end)) return begin + size;
  }
  const char* body = at + (*at == ' ' ? 1 : 0);
  if (body < end) {
    const Character first = character(body, end);
    if (first.type != CharClass::Space)
      return static_cast<std::size_t>(run_end(body + first.size, end, first.type) - start);
  }
  return static_cast<std::size_t>(space_end(at, end) - start);
}

std::size_t next_cut(std::string_view text, std::size_t from) {
  for (std::size_t i = from; i < text.size(); ++i)
    if (is_cut(text, i)) return i;
  return text.size();
}

std::size_t last_cut(std::string_view text) {
  for (std::size_t i = text.size(); i-- > 1;)
    if (is_cut(text, i)) return i;
  return 0;
}

}  // namespace chimera
