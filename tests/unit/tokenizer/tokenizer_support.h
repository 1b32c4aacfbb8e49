#pragma once
// Small tokenizers and random texts for the tests of this folder.
#include <random>
#include <string>
#include <vector>

#include "chimera/tokenizer/tokenizer.h"
#include "chimera/tokenizer/trainer.h"
#include "support/support.h"

namespace chimera::test {

// Words of a few syllables with spaces, newlines and punctuation between: text that has merges.
std::string synthetic_text(int words, unsigned seed);

Tokenizer small_tokenizer(Index vocab_size = 600);

// Characters of all kinds that GPT-2's pattern tells apart, valid UTF-8.
std::string random_text(std::mt19937& random, int characters);
std::string random_bytes(std::mt19937& random, int count);

std::string utf8(std::uint32_t code);

// A .tiktoken file of the 256 bytes in order of value, then `tokens`.
std::string rank_file(const std::vector<std::string>& tokens);

// The words of the pattern, one after the other.
std::vector<std::string> words_of(std::string_view text);

// Writes a folder with the two files and returns it.
std::filesystem::path tokenizer_folder(const TemporaryFolder& parent, const std::string& vocab,
                                       const std::string& merges);

// Expects an Error whose message has `piece`.
template <class Call>
void check_error(const Call& call, const std::string& piece) {
  try {
    call();
    FAIL("no error, expected: " << piece);
  } catch (const Error& e) {
    CAPTURE(e.what());
    CHECK(std::string(e.what()).find(piece) != std::string::npos);
  }
}

}  // namespace chimera::test
