#include "chimera/data/chunks.h"

#include "chimera/base/log.h"
#include "chimera/tokenizer/scanner.h"
#include "data_support.h"

using namespace chimera;
using namespace chimera::data;
using namespace chimera::test;

namespace {

// Everything that could make a cut go wrong: white space of every kind and length, contractions,
// bytes that are no UTF-8, characters on which Unicode versions disagree, special tokens.
std::string adversarial_text(Dice& dice, std::size_t parts) {
  static const std::vector<std::string> kParts = {" ",        "  ",
                                                  "   ",      "\n",
                                                  "\n\n",     "\r\n",
                                                  "\t",       "\v",
                                                  "\f",       "\u00a0",
                                                  "\u3000",   "\u0085",
                                                  "\u2028",   "\u180e",
                                                  "\u200b",   "\ufeff",
                                                  "a",        "Zb",
                                                  "the",      "7",
                                                  "42",       "'s",
                                                  "'",        "'re",
                                                  "'l",       "'ll",
                                                  "''",       "...",
                                                  "!",        "\x1c",
                                                  "\x1f",     "\x7f",
                                                  "é",        "ß",
                                                  "漢字",     "。",
                                                  "١",        "²",
                                                  "😀",        "e\u0301",
                                                  "\xff",     "\xe2\x80",
                                                  "\xc0\x80", "\xed\xa0\x80",
                                                  "\x80",     "<|endoftext|>",
                                                  "_",        "-\n"};
  std::string text;
  for (std::size_t i = 0; i < parts; ++i) text += kParts[dice.below(kParts.size())];
  return text;
}

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = word_end(text, begin);
    words.emplace_back(text.substr(begin, end - begin));
    begin = end;
  }
  return words;
}

std::vector<TextChunk> chunks_of(const std::filesystem::path& file, const ChunkSize& size,
                                 const Split& split = {}) {
  ChunkReader reader(file, size, split);
  std::vector<TextChunk> chunks;
  for (TextChunk chunk; reader.next(chunk);) chunks.push_back(chunk);
  return chunks;
}

std::string joined(const std::vector<TextChunk>& chunks, Part part) {
  std::string out;
  for (const TextChunk& chunk : chunks)
    if (chunk.part == part) out += chunk.bytes;
  return out;
}

std::string parts_of_documents(const std::vector<TextChunk>& chunks) {
  std::string out;
  for (const TextChunk& chunk : chunks) {
    if (chunk.begins_document) out += '(';
    out += chunk.part == Part::Train ? 't' : 'v';
    if (chunk.ends_document) out += ')';
  }
  return out;
}

}  // namespace

TEST_CASE("the chunks of a text, encoded apart, give the tokens of the whole text") {
  TemporaryFolder folder;
  Dice dice(1);
  const Tokenizer tokenizer = small_tokenizer(adversarial_text(dice, 20000));
  Index cuts = 0;
  for (int round = 0; round < 300; ++round) {
    const std::string text = adversarial_text(dice, 1 + dice.below(60));
    spit(folder / "t.txt", text);
    for (const Index target : {1, 2, 3, 5, 8, 13, 40}) {
      const auto chunks = chunks_of(folder / "t.txt", {.target = target});
      std::vector<std::string> words;
      std::vector<TokenId> tokens;
      for (const TextChunk& chunk : chunks) {
        for (std::string& word : words_of(chunk.bytes)) words.push_back(std::move(word));
        for (const TokenId id : tokenizer.encode(chunk.bytes)) tokens.push_back(id);
      }
      REQUIRE(joined(chunks, Part::Train) == text);
      REQUIRE(words == words_of(text));
      REQUIRE(tokens == tokenizer.encode(text));
      cuts += static_cast<Index>(chunks.size()) - 1;
    }
  }
  CHECK(cuts > 5000);  // 2,100 texts, more than two cuts in each: the claim is about many cuts
}

TEST_CASE("a text is cut before white space and after ASCII words, never after a newline") {
  CHECK(last_safe_cut("a\n\nb") == 1);  // whole: a, \n, \n, b; "a\n\n" alone: a, \n\n
  CHECK(last_safe_cut("one two ") == 7);
  CHECK(last_safe_cut("don't") == 3);      // don, 't
  CHECK(last_safe_cut("x = 'stop") == 3);  // not within 's
  CHECK(last_safe_cut("ab12cd") == 4);
  CHECK(last_safe_cut("漢字 ") == 6);
  CHECK(last_safe_cut("漢字") == 0);
  CHECK(last_safe_cut("\u3000 ") == 0);  // white space before white space
  CHECK(last_safe_cut("\xff ") == 0);    // what the byte belongs to is another's decision
  CHECK(last_safe_cut("     ") == 0);
  CHECK(last_safe_cut("a") == 0);
  CHECK(last_safe_cut("") == 0);
}

TEST_CASE("chunks stay near their target size") {
  TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 20000; ++i) text += "word ";
  spit(folder / "t.txt", text);
  const auto chunks = chunks_of(folder / "t.txt", {.target = 1000});
  for (const TextChunk& chunk : chunks) CHECK(chunk.bytes.size() <= 1000);
  CHECK(chunks.size() <= 101);
}

TEST_CASE("text without any safe cut is cut between characters at the limit") {
  set_log_level(LogLevel::Off);
  TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "漢";
  spit(folder / "t.txt", text);
  const auto chunks = chunks_of(folder / "t.txt", {.target = 10, .text_limit = 100});
  CHECK(chunks.size() == 31);  // 3,000 bytes in chunks of 99, whole characters of 3
  CHECK(joined(chunks, Part::Train) == text);
  for (const TextChunk& chunk : chunks) CHECK(chunk.bytes.size() % 3 == 0);
  // Bytes that are no characters at all are cut, too.
  spit(folder / "t.txt", std::string(1000, '\x80'));
  CHECK(chunks_of(folder / "t.txt", {.target = 10, .text_limit = 100}).size() == 10);
  set_log_level(LogLevel::Info);
}

TEST_CASE("the validation part of a text begins at the first line after the split") {
  TemporaryFolder folder;
  spit(folder / "t.txt", "one\ntwo\n\n three\nfour\nfive\n");
  for (const Index target : {1, 7, 1000})
    for (Index at = 1; at < 27; ++at) {
      const auto chunks = chunks_of(folder / "t.txt", {.target = target}, {at});
      const std::string train = joined(chunks, Part::Train),
                        validation = joined(chunks, Part::Validation);
      CAPTURE(target, at, train);
      REQUIRE(train + validation == "one\ntwo\n\n three\nfour\nfive\n");
      // Lines that begin with white space are no cuts; in the last line it is the byte itself.
      const std::size_t expected = at <= 4    ? 4
                                   : at <= 16 ? 16
                                   : at <= 21 ? 21
                                              : static_cast<std::size_t>(at);
      CHECK(train.size() == expected);
      const std::string shape = parts_of_documents(chunks);
      CHECK(std::count(shape.begin(), shape.end(), '(') == (validation.empty() ? 1 : 2));
      CHECK(std::count(shape.begin(), shape.end(), ')') == (validation.empty() ? 1 : 2));
    }
}

TEST_CASE("the validation part of JSON lines begins at its document, blank lines or not") {
  TemporaryFolder folder;
  spit(folder / "t.jsonl", "{1}\n\n{2}\n{3}\n   \n{4}");
  const auto digits = [](std::string text) {
    std::erase_if(text, [](char c) { return c < '0' || c > '9'; });
    return text;
  };
  for (const Index target : {1, 5, 1000})
    for (Index at = 1; at <= 4; ++at) {
      const auto chunks = chunks_of(folder / "t.jsonl", {.target = target}, {at});
      CHECK(digits(joined(chunks, Part::Train)) ==
            std::string("1234").substr(0, static_cast<std::size_t>(at)));
      CHECK(digits(joined(chunks, Part::Validation)) ==
            std::string("1234").substr(static_cast<std::size_t>(at)));
    }
  CHECK(measure_text(folder / "t.jsonl").documents == 4);
  CHECK(measure_text(folder / "t.jsonl").bytes == 20);
}

TEST_CASE("a JSON line over the limit is an error with its number") {
  TemporaryFolder folder;
  spit(folder / "t.jsonl", "{}\n{}\n" + std::string(200, 'x') + "\n");
  const ChunkSize size{.target = 10, .text_limit = 100, .line_limit = 100};
  CHECK_THAT(error_of([&] { chunks_of(folder / "t.jsonl", size); }),
             Catch::Contains("t.jsonl, line 3: longer than 100 bytes"));
}
