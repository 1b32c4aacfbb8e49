#include "byte_chars.h"

#include <algorithm>
#include <numeric>

namespace chimera::bpe {
namespace {

constexpr int kChars = 324;  // the highest stand-in is 255 + 68

constexpr bool stands_for_itself(int byte) {
  return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
}

constexpr std::array<int, 256> kCharOf = [] {
  std::array<int, 256> out{};
  int next = 256;
  for (int byte = 0; byte < 256; ++byte) out[byte] = stands_for_itself(byte) ? byte : next++;
  return out;
}();

constexpr std::array<int, kChars> kByteOf = [] {
  std::array<int, kChars> out{};
  for (int& byte : out) byte = -1;
  for (int byte = 0; byte < 256; ++byte) out[kCharOf[byte]] = byte;
  return out;
}();

}  // namespace

std::string to_byte_chars(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) {
    const int code = kCharOf[static_cast<unsigned char>(c)];
    if (code >= 0x80) out += static_cast<char>(0xC0 | code >> 6);
    out += static_cast<char>(code < 0x80 ? code : 0x80 | (code & 0x3F));
  }
  return out;
}

std::optional<std::string> from_byte_chars(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    int code = static_cast<unsigned char>(text[i]);
    if (code >= 0x80) {
      if (code < 0xC2 || code > 0xDF || i + 1 == text.size()) return std::nullopt;
      code = (code & 0x1F) << 6 | (static_cast<unsigned char>(text[++i]) & 0x3F);
    }
    if (code >= kChars || kByteOf[code] < 0) return std::nullopt;
    out += static_cast<char>(kByteOf[code]);
  }
  return out;
}

std::array<unsigned char, 256> bytes_by_char() {
  std::array<unsigned char, 256> out;
  std::iota(out.begin(), out.end(), static_cast<unsigned char>(0));
  std::sort(out.begin(), out.end(), [](int a, int b) { return kCharOf[a] < kCharOf[b]; });
  return out;
}

std::string shown(std::string_view content) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  for (const char c : content.substr(0, 80)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7F)
      out += std::string("\\x") + kHex[byte >> 4] + kHex[byte & 15];
    else
      out += c;
  }
  return out + (content.size() > 80 ? "..." : "");
}

bool has_special_form(std::string_view text) {
  if (text.size() < 3) return false;
  const bool closed =
      (text.front() == '<' && text.back() == '>') || (text.front() == '[' && text.back() == ']');
  bool word = false;
  for (const char signed_char : text) {
    const auto c = static_cast<unsigned char>(signed_char);
    if (c <= ' ' || c == 0x7F) return false;
    word = word || (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
  }
  return closed && word;
}

}  // namespace chimera::bpe
