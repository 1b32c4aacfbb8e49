#pragma once
// The little that the data layer must know of UTF-8 and Unicode whitespace.
#include <cstddef>
#include <string_view>

namespace chimera::data {

// Whether `c` is surely whitespace for GPT-2's pattern: \t \n \v \f \r and space.
constexpr bool is_ascii_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

// Whether a valid UTF-8 character that is surely no whitespace ends at text[end - 1]. False for
// every character that some regex library takes for whitespace (U+001C … U+001F, U+0085, U+180E
// among them).
bool ends_with_non_space(std::string_view text, std::size_t end);

// The first position >= `from` that is no continuation byte, at most text.size().
std::size_t next_character(std::string_view text, std::size_t from);

}  // namespace chimera::data
