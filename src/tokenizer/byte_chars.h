#pragma once
// GPT-2's printable stand-ins for bytes, used in vocab.json and merges.txt: the bytes 33-126,
// 161-172 and 174-255 are the code points of the same number, the others, in order, 256, 257, …
#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace chimera::bpe {

// UTF-8 of the stand-ins, byte by byte.
std::string to_byte_chars(std::string_view bytes);

// The bytes that a string of stand-ins means; nothing where a character is none.
std::optional<std::string> from_byte_chars(std::string_view text);

// All 256 bytes by the code point of their stand-in: the order in which training gives them ids.
std::array<unsigned char, 256> bytes_by_char();

// What a special token must look like: <…> or […] with a letter or digit inside, no white space or
// control characters. Such a text is never one word of GPT-2's pattern, so no merges make it.
bool has_special_form(std::string_view text);

// At most 80 bytes of a file's content for a message, control characters as \xNN.
std::string shown(std::string_view content);

}  // namespace chimera::bpe
