#include "tokenizer_support.h"

#include "chimera/tokenizer/scanner.h"

namespace chimera::test {

std::string synthetic_text(int words, unsigned seed) {
  static const char* const syllables[] = {"the", "an", "ing", "or", "st", "e", "ou", "li", "qua"};
  static const char* const between[] = {" ", " ", " ", " ", ", ", ".\n", "  ", "\n\n", "'s "};
  std::mt19937 random(seed);
  std::string out;
  for (int i = 0; i < words; ++i) {
    for (auto n = random() % 4 + 1; n > 0; --n) out += syllables[random() % std::size(syllables)];
    out += between[random() % std::size(between)];
  }
  return out;
}

Tokenizer small_tokenizer(Index vocab_size) {
  TokenizerTrainer trainer;
  trainer.add_text(synthetic_text(20000, 1));
  TrainOptions options;
  options.vocab_size = vocab_size;
  return trainer.finish(options);
}

std::string utf8(std::uint32_t code) {
  std::string out;
  const auto tail = [&](int shift) { out += static_cast<char>(0x80 | (code >> shift & 0x3F)); };
  if (code < 0x80) return std::string(1, static_cast<char>(code));
  if (code < 0x800) {
    out += static_cast<char>(0xC0 | code >> 6);
  } else if (code < 0x10000) {
    out += static_cast<char>(0xE0 | code >> 12);
    tail(6);
  } else {
    out += static_cast<char>(0xF0 | code >> 18);
    tail(12), tail(6);
  }
  tail(0);
  return out;
}

std::string random_text(std::mt19937& random, int characters) {
  static const char* const pieces[] = {
      " ",      " ",      "\n",     "\t", "'s", "'ll",          "'", "a", "Z", "the",
      "0",      "42",     "!",      "--", "é",  "中",           "٣", "½", "́",  "\u00a0",
      "\u2003", "\u3000", "\u200b", "😀",  "ß",  "<|endoftext|>"};
  std::string out;
  for (int i = 0; i < characters; ++i) {
    if (random() % 4 != 0) {
      out += pieces[random() % std::size(pieces)];
      continue;
    }
    auto code = static_cast<std::uint32_t>(random() % 0x110000);
    if (code >= 0xD800 && code < 0xE000) code = 'x';  // no UTF-8 for surrogates
    out += utf8(code);
  }
  return out;
}

std::string random_bytes(std::mt19937& random, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += static_cast<char>(random() & 0xFF);
  return out;
}

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> out;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = word_end(text, begin);
    REQUIRE(end > begin);
    REQUIRE(end <= text.size());
    out.emplace_back(text.substr(begin, end - begin));
    begin = end;
  }
  return out;
}

namespace {

std::string base64(const std::string& bytes) {
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  unsigned bits = 0;
  int have = 0;
  for (const char c : bytes) {
    bits = bits << 8 | static_cast<unsigned char>(c);
    for (have += 8; have >= 6; have -= 6) out += digits[bits >> (have - 6) & 63];
  }
  if (have > 0) out += digits[bits << (6 - have) & 63];
  while (out.size() % 4 != 0) out += '=';
  return out;
}

}  // namespace

std::string rank_file(const std::vector<std::string>& tokens) {
  std::string out;
  int rank = 0;
  for (int byte = 0; byte < 256; ++byte)
    out += base64(std::string(1, static_cast<char>(byte))) + " " + std::to_string(rank++) + "\n";
  for (const std::string& token : tokens)
    out += base64(token) + " " + std::to_string(rank++) + "\n";
  return out;
}

std::filesystem::path tokenizer_folder(const TemporaryFolder& parent, const std::string& vocab,
                                       const std::string& merges) {
  const auto folder = parent / "tokenizer";
  std::filesystem::create_directories(folder);
  spit(folder / "vocab.json", vocab);
  spit(folder / "merges.txt", merges);
  return folder;
}

}  // namespace chimera::test
