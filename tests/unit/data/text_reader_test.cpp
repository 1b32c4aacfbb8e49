#include "chimera/data/text_reader.h"

#include <unistd.h>

#include "chimera/base/log.h"
#include "data_support.h"

using namespace chimera;
using namespace chimera::data;
using namespace chimera::test;

namespace {

struct Quiet {
  Quiet() { set_log_level(LogLevel::Off); }
  ~Quiet() { set_log_level(LogLevel::Info); }
};

std::vector<std::string> documents_of(const std::filesystem::path& file,
                                      const TextOptions& options = {}, TextStats* stats = nullptr) {
  std::vector<std::string> documents;
  std::string current;
  const TextStats found =
      read_documents(file, options, [&](std::string_view chunk, DocumentEnd end) {
        current += chunk;
        if (end == DocumentEnd::Yes) documents.push_back(std::exchange(current, ""));
      });
  CHECK(current.empty());
  if (stats != nullptr) *stats = found;
  return documents;
}

std::string big_text() {
  std::string text;
  for (Index i = 0; i < 100000; ++i) text += "line " + std::to_string(i * i) + "\n";
  return text;
}

Index invalid_bytes(std::string_view text) {
  Utf8Counter counter;
  counter.add(text);
  return counter.finish();
}

std::string reading_error(const std::filesystem::path& file) {
  return error_of([&] { read_documents(file, {}, [](std::string_view, DocumentEnd) {}); });
}

}  // namespace

TEST_CASE(
    "a text is one document, plain or compressed, in one gzip member or several, padded or not") {
  TemporaryFolder folder;
  const std::string text = big_text(), half = text.substr(0, 300001), rest = text.substr(300001);
  spit(folder / "a.txt", text);
  spit(folder / "a.txt.gz", gzipped(half) + gzipped("") + gzipped(rest) + std::string(700, '\0'));
  spit(folder / "a.txt.zst", zstd_compressed(half) + zstd_compressed(rest));
  for (const char* name : {"a.txt", "a.txt.gz", "a.txt.zst"}) {
    TextStats stats;
    const auto documents = documents_of(folder / name, {}, &stats);
    REQUIRE(documents.size() == 1);
    CHECK(documents[0] == text);
    CHECK(stats.bytes == static_cast<Index>(text.size()));
    CHECK(stats.not_utf8 == 0);
  }
}

TEST_CASE("a line of a .jsonl file is a document, plain or compressed, key selectable") {
  TemporaryFolder folder;
  const std::string text =
      "{\"text\": \"one\", \"id\": 1}\r\n"
      "\n"
      "  {\"meta\": {\"text\": [1, -2.5e+3, true, null, {}, []]}, \"text\": "
      "\"t\\u0077o\\n\\\"\\/\\\\\\ud83d\\ude00\\u00e9\\u20ac\"}\n"
      "{\"text\": \"\"}\n"
      "{\"text\":\"three\"}";
  const std::vector<std::string> expected = {"one", "two\n\"/\\😀é€", "", "three"};
  spit(folder / "a.jsonl", text);
  spit(folder / "a.jsonl.gz", gzipped(text));
  spit(folder / "a.jsonl.zst", zstd_compressed(text));
  Quiet quiet;
  for (const char* name : {"a.jsonl", "a.jsonl.gz", "a.jsonl.zst"}) {
    TextStats stats;
    CHECK(documents_of(folder / name, {}, &stats) == expected);
    CHECK(stats.documents == 4);
    CHECK(stats.empty_documents == 1);
  }
  spit(folder / "b.jsonl", "{\"content\": \"x\", \"text\": 3}\n");
  CHECK(documents_of(folder / "b.jsonl", {.text_key = "content"}) == std::vector<std::string>{"x"});
}

TEST_CASE("bytes that are not UTF-8 are kept and counted") {
  TemporaryFolder folder;
  Quiet quiet;
  TextStats stats;
  spit(folder / "a.txt", "caf\xe9 \xff");
  CHECK(documents_of(folder / "a.txt", {}, &stats) == std::vector<std::string>{"caf\xe9 \xff"});
  CHECK(stats.not_utf8 == 2);
  spit(folder / "a.jsonl", "{\"text\": \"caf\xe9\"}\n{\"text\": \"\\ud800x\\udc00\"}\n");
  CHECK(documents_of(folder / "a.jsonl", {}, &stats) ==
        std::vector<std::string>{"caf\xe9", "\ufffdx\ufffd"});
  CHECK(stats.not_utf8 == 3);  // the byte, and two unpaired halves of a character
}

TEST_CASE("the UTF-8 counter follows RFC 3629 at every split of the text") {
  CHECK(invalid_bytes("plain, long enough for words of eight") == 0);
  CHECK(invalid_bytes("é€😀\u07ff\u0800\uffff\U0010ffff") == 0);
  CHECK(invalid_bytes("\xc0\x80") == 2);          // overlong
  CHECK(invalid_bytes("\xe0\x9f\xbf") == 3);      // overlong
  CHECK(invalid_bytes("\xed\xa0\x80") == 3);      // a surrogate
  CHECK(invalid_bytes("\xf4\x90\x80\x80") == 4);  // beyond U+10FFFF
  CHECK(invalid_bytes("\xf5\x80\x80\x80") == 4);
  CHECK(invalid_bytes("\xe2\x82") == 2);          // unfinished at the end
  CHECK(invalid_bytes("\xe2\x82x") == 2);         // unfinished before a letter
  CHECK(invalid_bytes("\xe2\xe2\x82\xac") == 1);  // a lead byte before a character
  const std::string text =
      "a\xe2\x82\xac\xe2\x82\xf0\x9f\x98\x80\xff"
      "12345678\xc3\xa9";
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    Utf8Counter counter;
    counter.add(std::string_view(text).substr(0, cut));
    counter.add(std::string_view(text).substr(cut));
    CHECK(counter.finish() == 3);
  }
}

TEST_CASE("damaged and cut-off compression is an error that names the place, at every length") {
  TemporaryFolder folder;
  std::string text = big_text().substr(0, 5000);
  for (const bool gzip : {true, false}) {
    const std::filesystem::path file = folder / (gzip ? "a.txt.gz" : "a.txt.zst");
    const std::string whole = gzip ? gzipped(text) : zstd_compressed(text);
    for (std::size_t length = 0; length < whole.size(); length += 37) {
      spit(file, whole.substr(0, length));
      const std::string error = reading_error(file);
      CAPTURE(file, length);
      CHECK_THAT(error, Catch::Contains(file.string()));
      CHECK_THAT(error, Catch::Contains("is cut off at byte " + std::to_string(length)));
    }
    std::string damaged = whole;
    damaged[whole.size() / 2] = static_cast<char>(damaged[whole.size() / 2] ^ 0x55);
    damaged[whole.size() / 2 + 9] = static_cast<char>(damaged[whole.size() / 2 + 9] ^ 0x55);
    spit(file, damaged);
    CHECK_THAT(reading_error(file),
               Catch::Contains("at byte") && Catch::Contains(gzip ? "gzip" : "zstd"));
    spit(file, "this is no compressed file");
    CHECK_THAT(reading_error(file),
               Catch::Contains(gzip ? "damaged gzip data" : "damaged zstd data"));
    spit(file, whole + "trailing");
    CHECK_THAT(reading_error(file), Catch::Contains("damaged") || Catch::Contains("cut off"));
  }
}

TEST_CASE("text files that cannot be read say why") {
  TemporaryFolder folder;
  spit(folder / "empty.txt", "");
  CHECK_THAT(reading_error(folder / "empty.txt"), Catch::Contains("empty.txt is empty"));
  spit(folder / "empty.txt.gz", gzipped(""));
  CHECK_THAT(reading_error(folder / "empty.txt.gz"), Catch::Contains("empty.txt.gz is empty"));
  spit(folder / "blank.jsonl", "\n  \n\n");
  CHECK_THAT(reading_error(folder / "blank.jsonl"),
             Catch::Contains("blank.jsonl has blank lines only"));
  CHECK_THAT(reading_error(folder.path()), Catch::Contains("is a directory"));
  CHECK_THAT(reading_error("/dev/null"), Catch::Contains("not a regular file"));
  CHECK_THAT(reading_error(folder / "missing.txt"), Catch::Contains("missing.txt: No such file"));
  if (geteuid() != 0) {  // root may read everything
    spit(folder / "secret.txt", "x");
    std::filesystem::permissions(folder / "secret.txt", std::filesystem::perms::none);
    CHECK_THAT(reading_error(folder / "secret.txt"), Catch::Contains("Permission denied"));
  }
}

TEST_CASE("a bad JSON line is an error with file, line, column and reason") {
  TemporaryFolder folder;
  const auto error = [&](const std::string& line) {
    spit(folder / "a.jsonl", "{\"text\": \"fine\"}\n\n" + line + "\n");
    const std::string message = reading_error(folder / "a.jsonl");
    CHECK_THAT(message, Catch::Contains("a.jsonl, line 3, column"));
    return message;
  };
  using Catch::Contains;
  CHECK_THAT(error("{\"body\": \"x\"}"), Contains("no key \"text\"") && Contains("--text-key"));
  CHECK_THAT(error("{\"text\": 7}"), Contains("\"text\" is no string"));
  CHECK_THAT(error("{\"text\": null}"), Contains("\"text\" is no string"));
  CHECK_THAT(error("{\"text\": \"a\", \"text\": \"b\"}"), Contains("twice"));
  CHECK_THAT(error("\"text\""), Contains("one JSON object"));
  CHECK_THAT(error("[\"text\"]"), Contains("one JSON object"));
  CHECK_THAT(error("plain text"), Contains("one JSON object"));
  CHECK_THAT(error("{\"text\": \"open"), Contains("does not end"));
  CHECK_THAT(error("{\"text\": \"tab\there\"}"), Contains("control character"));
  CHECK_THAT(error("{\"text\": \"\\x41\"}"), Contains("unknown escape"));
  CHECK_THAT(error("{\"text\": \"\\u12g4\"}"), Contains("hexadecimal"));
  CHECK_THAT(error("{\"text\": \"a\"} {\"text\": \"b\"}"), Contains("text after the JSON object"));
  CHECK_THAT(error("{\"text\": \"a\","), Contains("expected a key"));
  CHECK_THAT(error("{\"text\": \"a\" \"b\": 1}"), Contains("expected ','"));
  CHECK_THAT(error("{\"text\" \"a\"}"), Contains("expected ':'"));
  CHECK_THAT(error("{\"n\": 01, \"text\": \"a\"}"), Contains("expected ','"));
  CHECK_THAT(error("{\"n\": 1., \"text\": \"a\"}"), Contains("digit"));
  CHECK_THAT(error("{\"n\": nul, \"text\": \"a\"}"), Contains("expected a JSON value"));
  CHECK_THAT(error("{\"n\": [1, ], \"text\": \"a\"}"), Contains("expected a JSON value"));
  CHECK_THAT(error("{\"n\": " + std::string(100000, '[') + "}"), Contains("deeper than 64"));
}
