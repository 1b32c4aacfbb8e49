#include "chimera/data/prepare.h"

#include <signal.h>
#include <sys/resource.h>

#include <algorithm>

#include "chimera/base/log.h"
#include "chimera/data/dataset.h"
#include "data_support.h"

using namespace chimera;
using namespace chimera::data;
using namespace chimera::test;
namespace fs = std::filesystem;

namespace {

std::string verses(int count) {
  std::string text;
  for (int i = 0; i < count; ++i)
    text += "And verse " + std::to_string(i) + " said unto them, don't  stop.\n\n  So be it.\n";
  return text;
}

std::vector<TokenId> tokens_of(const fs::path& folder, const SplitInfo& split) {
  std::vector<TokenId> out;
  for (const ShardInfo& info : split.shards) {
    const Shard shard(folder / info.name);
    CHECK(shard.tokens() == info.tokens);
    CHECK(checksum_of_file(folder / info.name) == info.checksum);
    std::vector<TokenId> tokens(static_cast<std::size_t>(shard.tokens()));
    shard.read(0, shard.tokens(), tokens.data());
    out.insert(out.end(), tokens.begin(), tokens.end());
  }
  return out;
}

std::string json_lines(const std::vector<std::string>& documents) {
  std::string out;
  for (const std::string& document : documents) {
    std::string escaped;
    for (const char c : document) escaped += c == '\n' ? std::string("\\n") : std::string(1, c);
    out += "{\"text\": \"" + escaped + "\"}\n";
  }
  return out;
}

// The names in a folder, hidden ones too, and every file's content.
std::vector<std::pair<std::string, std::string>> contents(const fs::path& folder) {
  std::vector<std::pair<std::string, std::string>> out;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    out.emplace_back(entry.path().lexically_relative(folder).string(),
                     entry.is_regular_file() ? slurp(entry.path()) : "");
  std::sort(out.begin(), out.end());
  return out;
}

struct Fixture {
  TemporaryFolder folder;
  std::string text = verses(2000);
  Tokenizer tokenizer = small_tokenizer(text);
  PrepareOptions options;
  Fixture() {
    spit(folder / "a.txt", text);
    options.files = {folder / "a.txt"};
    options.output = folder / "out";
    options.chunks.target = 1000;
  }
  std::string error() {
    return error_of([&] { prepare(tokenizer, options); });
  }
  std::vector<TokenId> with_end(std::vector<TokenId> tokens) const {
    tokens.push_back(*tokenizer.end_of_text());
    return tokens;
  }
};

}  // namespace

TEST_CASE_METHOD(Fixture,
                 "shards hold the tokens of the whole text and its end, whatever the threads") {
  const std::vector<TokenId> expected = with_end(tokenizer.encode(text));
  for (const int threads : {1, 2, 5}) {
    options.output = folder / ("out" + std::to_string(threads));
    options.threads = threads;
    options.shard_tokens = 5000;
    const DatasetManifest manifest = prepare(tokenizer, options);
    CHECK(manifest.train.shards.size() == (expected.size() + 4999) / 5000);
    CHECK(tokens_of(options.output, manifest.train) == expected);
    CHECK(manifest.validation.shards.empty());
    CHECK(manifest.train.bytes == static_cast<Index>(text.size()));
    CHECK(contents(folder / "out1") == contents(options.output));
  }
}

TEST_CASE_METHOD(
    Fixture, "the last part of each text is held out, and both texts are written byte for byte") {
  const std::string second =
      "short\ntext\nhere\nmore\n";  // 6 of 21 bytes: from byte 15, the line at 16
  spit(folder / "b.txt.gz", gzipped(second));
  options.files = {folder / "a.txt", folder / "b.txt.gz"};
  options.validation_fraction = 0.3;
  options.write_text = folder / "texts";
  const DatasetManifest manifest = prepare(tokenizer, options);
  const std::string train = slurp(folder / "texts" / "train.txt"),
                    validation = slurp(folder / "texts" / "val.txt");
  // By hand: the first beginning of a line within the last 30 % of the bytes.
  std::size_t cut = text.size() - text.size() * 3 / 10;
  while (text[cut - 1] != '\n' || text[cut] == ' ' || text[cut] == '\n') ++cut;
  CHECK(train == text.substr(0, cut) + "short\ntext\nhere\n");
  CHECK(validation == text.substr(cut) + "more\n");
  CHECK(manifest.train.bytes == static_cast<Index>(train.size()));
  CHECK(manifest.validation.bytes == static_cast<Index>(validation.size()));
  CHECK(manifest.train.documents == 2);
  std::vector<TokenId> expected = with_end(tokenizer.encode(text.substr(0, cut)));
  for (const TokenId id : with_end(tokenizer.encode("short\ntext\nhere\n"))) expected.push_back(id);
  CHECK(tokens_of(options.output, manifest.train) == expected);
}

TEST_CASE_METHOD(Fixture, "the last documents of JSON lines are held out, at either end of text") {
  const std::vector<std::string> documents = {"one\n", "two and\nmore", "", "four", "five"};
  const TokenId end = *tokenizer.end_of_text();
  set_log_level(LogLevel::Off);
  for (const char* name : {"a.jsonl", "a.jsonl.gz", "a.jsonl.zst"})
    for (const EndOfText position : {EndOfText::After, EndOfText::Before})
      for (const Index target : {1, 30, 1000}) {
        const std::string lines = json_lines(documents), extension = fs::path(name).extension();
        spit(folder / name, extension == ".gz"    ? gzipped(lines)
                            : extension == ".zst" ? zstd_compressed(lines)
                                                  : lines);
        options.files = {folder / name};
        options.end_of_text = position;
        options.chunks.target = target;
        options.validation_fraction = 0.3;  // 1.5 documents, rounded to 2
        options.existing = PrepareOptions::Existing::Replace;
        const DatasetManifest manifest = prepare(tokenizer, options);
        std::vector<TokenId> expected[2];
        for (std::size_t i = 0; i < documents.size(); ++i) {
          std::vector<TokenId>& tokens = expected[i < 3 ? 0 : 1];
          if (position == EndOfText::Before) tokens.push_back(end);
          for (const TokenId id : tokenizer.encode(documents[i])) tokens.push_back(id);
          if (position == EndOfText::After) tokens.push_back(end);
        }
        CHECK(tokens_of(options.output, manifest.train) == expected[0]);
        CHECK(tokens_of(options.output, manifest.validation) == expected[1]);
        CHECK(manifest.train.documents == 3);
        CHECK(manifest.validation.documents == 2);
      }
  set_log_level(LogLevel::Info);
}

TEST_CASE_METHOD(Fixture,
                 "dataset.json reads back as it was written, and the tokenizer lies beside it") {
  options.validation_fraction = 0.1;
  const DatasetManifest written = prepare(tokenizer, options);
  const DatasetManifest read = read_manifest(options.output / "dataset.json");
  CHECK(manifest_text(read) == manifest_text(written));
  CHECK(read.tokenizer_fingerprint == tokenizer.fingerprint());
  CHECK(read.vocabulary_size == 400);
  CHECK(Tokenizer::load(options.output / "tokenizer").fingerprint() == tokenizer.fingerprint());
  CHECK(manifest_of(options.output / "train-000000.bin").has_value());
  CHECK(!manifest_of(folder / "train-000000.bin").has_value());
  CHECK(!manifest_of(options.output / "other.bin").has_value());
  const Dataset dataset({(options.output / "val-*.bin").string()}, 16, 400);
  dataset.check_all_ids();
}

TEST_CASE_METHOD(Fixture, "a damaged dataset.json is refused with the place") {
  prepare(tokenizer, options);
  const std::string good = slurp(options.output / "dataset.json");
  const auto error = [&](const std::string& from, const std::string& to) {
    std::string bad = good;
    const std::size_t at = bad.find(from);
    REQUIRE(at != std::string::npos);
    spit(options.output / "dataset.json", bad.replace(at, from.size(), to));
    return error_of([&] { read_manifest(options.output / "dataset.json"); });
  };
  CHECK_THAT(error("\"version\": 1", "\"version\": 9"),
             Catch::Contains("version is 9; this program reads version 1"));
  CHECK_THAT(error("\"train-000000.bin\"", "\"../x\""), Catch::Contains("no plain file name"));
  CHECK_THAT(error("\"documents\": 1", "\"documents\": -1"),
             Catch::Contains("train.documents is -1; it must be a whole number"));
  CHECK_THAT(error("\"uint16\"", "\"uint8\""), Catch::Contains("uint8"));
  CHECK_THAT(error("\"fingerprint\"", "\"finger\""),
             Catch::Contains("tokenizer.fingerprint is missing"));
  CHECK_THAT(error("\"version\": 1,", "\"version\": 1, \"more\": 2,"),
             Catch::Contains("more is not a known key"));
  CHECK_THAT(error("{", "["), Catch::Contains("dataset.json"));
}

TEST_CASE_METHOD(Fixture, "special tokens in the text are ordinary text") {
  spit(folder / "a.txt", "before<|endoftext|>after");
  const DatasetManifest manifest = prepare(tokenizer, options);
  const std::vector<TokenId> tokens = tokens_of(options.output, manifest.train);
  CHECK(std::count(tokens.begin(), tokens.end(), *tokenizer.end_of_text()) == 1);
  CHECK(tokens.back() == *tokenizer.end_of_text());
}

TEST_CASE_METHOD(Fixture, "an error leaves nothing behind and what was there as it was") {
  prepare(tokenizer, options);
  const auto before = contents(folder.path());
  CHECK_THAT(error(), Catch::Contains("out is not empty") && Catch::Contains("--force"));
  options.existing = PrepareOptions::Existing::Replace;
  spit(folder / "bad.jsonl", json_lines(std::vector<std::string>(500, "fine")) + "{\"text\": 7}\n");
  options.files = {folder / "a.txt", folder / "bad.jsonl"};
  CHECK_THAT(error(), Catch::Contains("bad.jsonl, line 501"));
  fs::remove(folder / "bad.jsonl");
  CHECK(contents(folder.path()) == before);
  options.files = {folder / "a.txt"};
  options.progress = [](const PrepareProgress& p) {
    if (p.done > 50000) throw Error("stopped in the middle");
  };
  CHECK(error() == "stopped in the middle");
  CHECK(contents(folder.path()) == before);
}

TEST_CASE_METHOD(
    Fixture,
    "what a killed run left is removed by the next, and --force replaces data sets alone") {
  fs::create_directories(folder / ".out.partial");
  spit(folder / ".out.partial" / "train-000000.bin", "half");
  spit(folder / ".out.lock", "");
  prepare(tokenizer, options);
  CHECK(!fs::exists(folder / ".out.partial"));
  CHECK(!fs::exists(folder / ".out.lock"));
  const auto before = contents(options.output);
  options.existing = PrepareOptions::Existing::Replace;
  prepare(tokenizer, options);
  CHECK(contents(options.output) == before);
  spit(options.output / "thesis.tex", "years of work");
  CHECK_THAT(error(), Catch::Contains("holds thesis.tex"));
  CHECK(slurp(options.output / "thesis.tex") == "years of work");
}

TEST_CASE_METHOD(Fixture, "two runs for one folder: the second is refused") {
  fs::create_directories(folder.path());
  const DirectoryLock lock(folder.path(), ".out.lock", "a test of");
  CHECK_THAT(error(),
             Catch::Contains("data prepare") && Catch::Contains("in use by another process"));
}

TEST_CASE_METHOD(Fixture, "a disk that takes no more is an error, with nothing left behind") {
  const auto before = contents(folder.path());
  rlimit old;
  REQUIRE(getrlimit(RLIMIT_FSIZE, &old) == 0);
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  const rlimit small{20000, old.rlim_max};  // the shard has some 60,000 bytes
  REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
  const std::string message = error();
  REQUIRE(setrlimit(RLIMIT_FSIZE, &old) == 0);
  signal(SIGXFSZ, handler);
  CHECK_THAT(message, Catch::Contains("cannot write to") && Catch::Contains("train-000000.bin"));
  CHECK(contents(folder.path()) == before);
}

TEST_CASE_METHOD(Fixture, "a full disk under the texts is an error that says so") {
  fs::create_directories(folder / "texts");
  fs::create_symlink("/dev/full", folder / "texts" / "train.txt.partial");
  options.write_text = folder / "texts";
  CHECK_THAT(error(), Catch::Contains("No space left") && Catch::Contains("free some space"));
  CHECK(!fs::exists(options.output));
}

TEST_CASE_METHOD(Fixture, "texts may be written into the new folder itself, not below it") {
  options.write_text = options.output;
  options.validation_fraction = 0.1;
  for (int round = 0; round < 2; ++round) {
    prepare(tokenizer, options);
    CHECK(slurp(options.output / "train.txt") + slurp(options.output / "val.txt") == text);
    options.existing = PrepareOptions::Existing::Replace;
  }
  options.write_text = options.output / "texts";
  CHECK_THAT(error(), Catch::Contains("--write-text"));
}

TEST_CASE_METHOD(Fixture,
                 "texts are written over nothing, unless told so, and never over the input") {
  spit(folder / "train.txt", text);
  options.write_text = folder.path();
  CHECK_THAT(error(), Catch::Contains("train.txt is there already"));
  options.existing = PrepareOptions::Existing::Replace;
  options.files = {folder / "train.txt"};
  CHECK_THAT(error(), Catch::Contains("train.txt is one of the texts to read"));
  CHECK(slurp(folder / "train.txt") == text);
  options.files = {folder / "a.txt"};
  options.validation_fraction = 0.5;
  prepare(tokenizer, options);
  CHECK(slurp(folder / "train.txt") + slurp(folder / "val.txt") == text);
}

TEST_CASE_METHOD(Fixture, "input that cannot be prepared is refused before anything is written") {
  const auto refused = [&](const std::vector<fs::path>& files) {
    options.files.assign(files.begin(), files.end());
    const std::string message = error();
    CHECK(!fs::exists(options.output));
    return message;
  };
  spit(folder / "empty.txt", "");
  CHECK_THAT(refused({folder / "a.txt", folder / "empty.txt"}),
             Catch::Contains("empty.txt is empty"));
  CHECK_THAT(refused({folder.path()}), Catch::Contains("is a directory"));
  CHECK_THAT(refused({folder / "none.txt"}), Catch::Contains("none.txt"));
  CHECK_THAT(refused({}), Catch::Contains("no text files"));
  options.validation_fraction = 0.5;
  spit(folder / "one.jsonl", json_lines({"only"}));
  CHECK_THAT(refused({folder / "one.jsonl"}), Catch::Contains("leaves no text for validation"));
  options.validation_fraction = 1;
  CHECK_THAT(refused({folder / "a.txt"}), Catch::Contains("--validation-fraction is 1"));
  options.validation_fraction = 0;
  TrainOptions no_end;
  no_end.vocab_size = 300;
  no_end.special_tokens = {};
  TokenizerTrainer trainer;
  trainer.add_text(text);
  tokenizer = trainer.finish(no_end);
  CHECK_THAT(refused({folder / "a.txt"}), Catch::Contains("no <|endoftext|>"));
}
