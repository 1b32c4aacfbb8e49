#pragma once
// Text from a file, fit for a message: at most 80 characters, control characters replaced.
#include <string>
#include <string_view>

namespace chimera::checkpoint {

inline std::string in_quotes(std::string_view text) {
  constexpr std::size_t kMost = 80;
  std::string out = "\"";
  for (const char c : text.substr(0, kMost))
    out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  return out + (text.size() > kMost ? "…\"" : "\"");
}

}  // namespace chimera::checkpoint
