#pragma once
// GPT-2's pattern, by hand: 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+|
// ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ with the classes of Unicode 16.0. Linear in the text, and without
// memory: where a word begins is all that decides where it ends.
#include <cstddef>
#include <string_view>

namespace chimera {

// The end of the word that begins at `begin` (begin < text.size()); words cover the text without
// gaps. A byte that begins no well-formed UTF-8 sequence (RFC 3629: no overlong forms, surrogates
// or code points over 10FFFF) is one character, neither letter, number nor white space.
std::size_t word_end(std::string_view text, std::size_t begin);

// The first position >= from, from >= 1, where the text may be cut without changing its words:
// between an ASCII character that is no white space and ASCII white space; text.size() where there
// is none. No special token spans such a cut.
std::size_t next_cut(std::string_view text, std::size_t from);

// The last such position in 1 … text.size() - 1; 0 where there is none.
std::size_t last_cut(std::string_view text);

}  // namespace chimera
