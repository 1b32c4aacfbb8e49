#include <algorithm>
#include <fstream>

#include "tokenizer_support.h"

using namespace chimera;
using namespace chimera::test;
namespace fs = std::filesystem;

namespace {

// Ranks of "th", "the", " the", …: lists of merges follow from them.
const std::vector<std::string> kRanked = {"th", "the", " t", " the", "in", "ing", "\n\n", "he"};

// The two files of a tokenizer with bytes only, <|endoftext|> as id 0 and `more` after id 256.
std::string vocab_with(const std::string& more) {
  static const std::string base = small_tokenizer(257).files()[0].second;
  return base.substr(0, base.size() - 1) + more + "}";
}

void check_folder_error(const std::string& vocab, const std::string& merges,
                        const std::string& piece) {
  TemporaryFolder folder;
  const auto path = tokenizer_folder(folder, vocab, merges);
  check_error([&] { Tokenizer::load(path); }, piece);
}

void check_ranks_error(const std::string& content, const std::string& piece) {
  TemporaryFolder folder;
  spit(folder / "t.tiktoken", content);
  check_error([&] { Tokenizer::load(folder / "t.tiktoken"); }, piece);
}

}  // namespace

TEST_CASE("a .tiktoken file goes through vocab.json + merges.txt and back unchanged") {
  TemporaryFolder folder;
  spit(folder / "a.tiktoken", rank_file(kRanked));
  const Tokenizer a = Tokenizer::load(folder / "a.tiktoken");
  CHECK(a.vocabulary_size() == 265);
  CHECK(a.end_of_text() == 264);
  CHECK(a.merge_count() == 8);
  a.save(folder / "b");
  CHECK(slurp(folder / "b" / "merges.txt").starts_with("#version: 0.2\nt h\nth e\nĠ t\n"));
  const Tokenizer b = Tokenizer::load(folder / "b");
  CHECK(b.fingerprint() == a.fingerprint());
  b.save_tiktoken(folder / "c.tiktoken");
  CHECK(slurp(folder / "c.tiktoken") == rank_file(kRanked));
  const std::string text = synthetic_text(500, 4) + " the thing";
  CHECK(b.encode(text) == a.encode(text));
}

TEST_CASE(
    "a tokenizer's fingerprint changes with a token, with the order of merges, with a special") {
  TemporaryFolder folder;
  std::vector<std::string> seen;
  const auto fingerprint_of = [&](const std::string& vocab, const std::string& merges) {
    return Tokenizer::load(tokenizer_folder(folder, vocab, merges)).fingerprint();
  };
  seen.push_back(fingerprint_of(vocab_with(""), ""));
  seen.push_back(fingerprint_of(vocab_with(",\"ab\":257,\"bc\":258"), "a b\nb c\n"));
  seen.push_back(fingerprint_of(vocab_with(",\"ab\":257,\"bc\":258"), "b c\na b\n"));
  seen.push_back(fingerprint_of(vocab_with(",\"ab\":258,\"bc\":257"), "a b\nb c\n"));
  seen.push_back(fingerprint_of(vocab_with(",\"ab\":257,\"<bc>\":258"), "a b\n"));
  CHECK(seen[0].size() == 32);
  std::sort(seen.begin(), seen.end());
  CHECK(std::adjacent_find(seen.begin(), seen.end()) == seen.end());
}

TEST_CASE(
    "files of a trained tokenizer load as the same tokenizer, saved twice as the same bytes") {
  const Tokenizer t = small_tokenizer();
  TemporaryFolder folder;
  t.save(folder / "a");
  const Tokenizer u = Tokenizer::load(folder / "a");
  CHECK(u.fingerprint() == t.fingerprint());
  u.save(folder / "a");  // over what stands there
  CHECK(u.files() == t.files());
  CHECK(slurp(folder / "a" / "vocab.json") == t.files()[0].second);
  CHECK(u.merge_count() == 600 - 257);
  // Windows line ends, no #version line, no newline at the end.
  std::string merges = slurp(folder / "a" / "merges.txt");
  merges = merges.substr(merges.find('\n') + 1);
  merges.pop_back();
  for (std::size_t at = 0; (at = merges.find('\n', at)) != std::string::npos; at += 2)
    merges.insert(at, "\r");
  spit(folder / "a" / "merges.txt", merges);
  CHECK(Tokenizer::load(folder / "a").fingerprint() == t.fingerprint());
}

TEST_CASE("save_tiktoken says what the format cannot hold") {
  TemporaryFolder folder;
  const Path out = folder / "x.tiktoken";
  check_error([&] { small_tokenizer().save_tiktoken(out); }, "as the last id 599");
  // <|endoftext|> last, but the merges in another order than the ids.
  std::string vocab = vocab_with(",\"ab\":256,\"bc\":257,\"<|endoftext|>\":258");
  vocab.erase(1, vocab.find(','));
  for (int id = 1; id <= 256; ++id) {
    const auto at = vocab.find(":" + std::to_string(id) + (id < 256 ? "," : ",\"ab\""));
    vocab.replace(at + 1, std::to_string(id).size(), std::to_string(id - 1));
  }
  const auto bad = tokenizer_folder(folder, vocab, "b c\na b\n");
  check_error([&] { Tokenizer::load(bad).save_tiktoken(out); }, "merge differently");
  CHECK(!fs::exists(out));
  tokenizer_folder(folder, vocab, "a b\nb c\n");
  Tokenizer::load(bad).save_tiktoken(out);
  CHECK(Tokenizer::load(out).fingerprint() == Tokenizer::load(bad).fingerprint());
}

TEST_CASE("bad vocab.json is refused with its reason") {
  const std::string good = vocab_with("");
  check_folder_error("", "", "not valid JSON");
  check_folder_error(good.substr(0, good.size() / 2), "", "not valid JSON");
  check_folder_error(good + "x", "", "not valid JSON");
  check_folder_error("\xff\xfe", "", "not valid JSON");
  check_folder_error("{}", "", "holds no tokens");
  check_folder_error("[1]", "", "an array; an object of \"token\": id is needed");
  check_folder_error("7", "", "a number; an object");
  check_folder_error(std::string(3'000'000, '['), "", "an array");
  std::string deep;
  for (int i = 0; i < 1'000'000; ++i) deep += "{\"a\":";
  check_folder_error(deep, "", "the id of \"a\" is an object");
  check_folder_error(vocab_with(",\"ab\":\"257\""), "a b\n", "the id of \"ab\" is a string");
  check_folder_error(vocab_with(",\"ab\":257.5"), "a b\n", "is the number 257.5");
  check_folder_error(vocab_with(",\"ab\":null"), "a b\n", "is null");
  check_folder_error(vocab_with(",\"ab\":-1"), "a b\n", "the negative number -1");
  check_folder_error(vocab_with(",\"ab\":258"), "a b\n", "\"ab\" has the id 258");
  check_folder_error(vocab_with(",\"ab\":99999999999999"), "a b\n", "without holes");
  check_folder_error(vocab_with(",\"ab\":1e99"), "a b\n", "integers from 0");
  check_folder_error(vocab_with(",\"ab\":256"), "a b\n", "have the same id 256");
  check_folder_error(vocab_with(",\"ab\":257,\"ab\":258"), "a b\n", "stands twice");
  check_folder_error(vocab_with(",\"ab\":257"), "", "cut short");
  check_folder_error(vocab_with(",\"\":257"), "", "neither a byte");
  check_folder_error("{\"a\":0,\"b\":1}", "", "no token for the byte 0");
}

TEST_CASE("bad merges.txt is refused with file, line and reason") {
  const std::string ab = vocab_with(",\"ab\":257");
  check_folder_error(ab, "#version: 0.2\na b\nq zz\n", "merges.txt:3: the token \"zz\" is not in");
  check_folder_error(ab, "a b\na c\n",
                     "merges.txt:2: the merged token \"ac\" is not in vocab.json");
  check_folder_error(ab, "a b\nab\n", "merges.txt:2: \"ab\" is not a merge");
  check_folder_error(ab, "a b c\n", "merges.txt:1: \"a b c\" is not a merge");
  check_folder_error(ab, "a  b\n", "is not a merge");
  check_folder_error(ab, "a b\n\na b\n", "merges.txt:2: \"\" is not a merge");
  check_folder_error(ab, "a b\na b\n", "\"a b\" stands twice");
  check_folder_error(vocab_with(",\"a<x>\":257,\"<x>\":258"), "a <x>\n",
                     "is merged, but is neither a byte");
  check_folder_error(ab, std::string("a b\n\0\0\n", 7),
                     "merges.txt:2: \"\\x00\\x00\" is not a merge");
}

TEST_CASE("bad .tiktoken files are refused with file, line and reason") {
  const std::string bytes = rank_file({});
  check_ranks_error("", "no token for the byte 0");
  check_ranks_error("AA== 0\n", "no token for the byte 1");
  check_ranks_error("hello\n", "t.tiktoken:1: \"hello\" has no space");
  for (const char* token : {"YW.=", "YWI", "YQ=a", "====", "", "YR=="})  // YR==: unused bits set
    check_ranks_error(bytes + token + " 256\n", "t.tiktoken:257: \"" + std::string(token) +
                                                    "\" is not the base64 of a token");
  for (const char* rank : {"-1", "", "x", "1.5", "256 7", "99999999999999999999999"})
    check_ranks_error(bytes + "YWI= " + rank + "\n", "t.tiktoken:257: the rank \"");
  check_ranks_error(bytes + "YWI= 257\n", "without gaps");
  check_ranks_error(bytes + "YWI= 18446744073709551615\n", "without gaps");
  check_ranks_error(bytes + "YWI= 255\n", "t.tiktoken:257: the rank 255 stands in line 256 too");
  check_ranks_error(bytes + "YWI= 256\nYWI= 257\n", "the same token stands in line 257 too");
  check_ranks_error(rank_file({"<|endoftext|>"}), "take its line out");
  check_ranks_error(rank_file({std::string(1025, 'a')}), "has 1025 bytes; at most 1024");
}

TEST_CASE("a path that is no tokenizer is refused with the way out") {
  TemporaryFolder folder;
  check_error([&] { Tokenizer::load(folder / "none"); }, "there is no tokenizer at");
  check_error([&] { Tokenizer::load(folder.path()); }, "has no vocab.json");
  spit(folder / "vocab.json", vocab_with(""));
  check_error([&] { Tokenizer::load(folder.path()); }, "has no merges.txt");
  check_error([&] { Tokenizer::load(folder / "vocab.json"); }, "name the folder that holds both");
  fs::create_directory(folder / "merges.txt");
  check_error([&] { Tokenizer::load(folder.path()); }, "is a directory");
  // Sparse, so it takes no space: the limit holds before anything is read.
  spit(folder / "big.tiktoken", "");
  fs::resize_file(folder / "big.tiktoken", std::uintmax_t{1} << 40);
  check_error([&] { Tokenizer::load(folder / "big.tiktoken"); }, "at most 67108864 are accepted");
}

// Whatever a damaged file is taken for, it must not crash, hang or load as something else: single
// bytes of good files are changed, and what still loads must encode and decode exactly.
TEST_CASE("damaged tokenizer files are refused or give a whole tokenizer") {
  TemporaryFolder folder;
  const Tokenizer good = small_tokenizer(300);
  const std::string files[] = {good.files()[0].second, good.files()[1].second, rank_file(kRanked)};
  const std::string text = synthetic_text(30, 5) + "\xff\x80 é";
  std::mt19937 random(8);
  int refused = 0;
  for (int i = 0; i < 600; ++i) {
    std::string damaged[] = {files[0], files[1], files[2]};
    std::string& victim = damaged[i % 3];
    victim[random() % victim.size()] = static_cast<char>(random() & 0xFF);
    const auto path = tokenizer_folder(folder, damaged[0], damaged[1]);
    spit(folder / "t.tiktoken", damaged[2]);
    try {
      const Tokenizer t = Tokenizer::load(i % 3 == 2 ? folder / "t.tiktoken" : Path(path));
      CHECK(t.decode(t.encode(text)) == text);
    } catch (const Error&) {
      ++refused;
    }
  }
  CHECK(refused > 300);
}
