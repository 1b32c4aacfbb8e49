#pragma once
// Base64 of RFC 4648 section 4, with padding.
#include <optional>
#include <string>
#include <string_view>

namespace chimera::bpe {

std::string to_base64(std::string_view bytes);

// Nothing unless `text` is exactly what to_base64 would write.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace chimera::bpe
