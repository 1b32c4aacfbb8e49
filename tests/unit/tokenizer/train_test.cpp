#include <map>

#include "chimera/base/threads.h"
#include "chimera/tokenizer/scanner.h"
#include "tokenizer_support.h"

using namespace chimera;
using namespace chimera::test;

namespace {

TrainOptions options_of(Index vocab_size, Index min_frequency = 2) {
  TrainOptions out;
  out.vocab_size = vocab_size;
  out.min_frequency = min_frequency;
  return out;
}

Tokenizer train_on(const std::string& text, const TrainOptions& options) {
  TokenizerTrainer trainer;
  trainer.add_text(text);
  return trainer.finish(options);
}

using Pair = std::pair<TokenId, TokenId>;

// The rules as written down, counting everything anew at each step. Returns the merged strings.
std::vector<std::string> train_by_definition(const std::string& text, const Tokenizer& bytes,
                                             Index merges, Index min_frequency) {
  std::map<std::string, Index> words;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t newline = std::min(text.find('\n', begin), text.size() - 1);
    for (const auto& word : words_of(text.substr(begin, newline + 1 - begin))) ++words[word];
    begin = newline + 1;
  }
  std::vector<std::pair<std::vector<TokenId>, Index>> list;
  for (const auto& [word, count] : words) list.emplace_back(bytes.encode(word), count);
  std::vector<std::string> names, out;
  for (TokenId id = 0; id < 257; ++id) names.emplace_back(bytes.token_bytes(id));
  while (static_cast<Index>(out.size()) < merges) {
    std::map<Pair, Index> counts;
    for (const auto& [ids, count] : list)
      for (std::size_t i = 0; i + 1 < ids.size(); ++i) counts[{ids[i], ids[i + 1]}] += count;
    Pair best{-1, -1};
    for (const auto& [pair, count] : counts)  // ascending: the first of equals is the lowest
      if (best.first < 0 || count > counts[best]) best = pair;
    if (best.first < 0 || counts[best] < min_frequency) break;
    const auto merged = static_cast<TokenId>(names.size());
    names.push_back(names[best.first] + names[best.second]);
    out.push_back(names.back());
    for (auto& [ids, count] : list)
      for (std::size_t i = 0; i + 1 < ids.size(); ++i)
        if (ids[i] == best.first && ids[i + 1] == best.second) {
          ids[i] = merged;
          ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(i) + 1);
        }
  }
  return out;
}

}  // namespace

TEST_CASE("training: the merges are those of the definition, counted anew at each step") {
  const Tokenizer bytes = small_tokenizer(257);
  std::mt19937 random(2);
  for (int round = 0; round < 40; ++round) {
    std::string text;
    for (int i = 0; i < 400; ++i) text += "aab b\n"[random() % 6];
    if (round % 2 == 0) text = synthetic_text(60, static_cast<unsigned>(round));
    const Index min_frequency = 1 + round % 3;
    const auto expected = train_by_definition(text, bytes, 60, min_frequency);
    const Tokenizer t = train_on(text, options_of(257 + 60, min_frequency));
    REQUIRE(t.vocabulary_size() == 257 + static_cast<Index>(expected.size()));
    for (std::size_t i = 0; i < expected.size(); ++i)
      CHECK(t.token_bytes(static_cast<TokenId>(257 + i)) == expected[i]);
  }
}

TEST_CASE("training: ids are special tokens, then bytes by stand-in character, then merges") {
  const Tokenizer t = train_on("aaaa aaaa", options_of(259));
  CHECK(t.token_bytes(0) == kEndOfText);
  CHECK(t.token_bytes(1) == "!");
  CHECK(t.token_bytes(94) == "~");
  CHECK(t.token_bytes(95) == "\xa1");
  CHECK(t.token_bytes(189) == std::string(1, '\0'));  // the first that needs a stand-in
  CHECK(t.token_bytes(256) == "\xad");                // the last
  CHECK(t.token_bytes(257) == "aa");
  CHECK(t.token_bytes(258) == "aaaa");
}

TEST_CASE("training does not depend on how the text comes in, nor on the team") {
  const std::string text = synthetic_text(400000, 3);  // some 35 pieces of 64 KiB
  TemporaryFolder folder;
  spit(folder / "text", text);
  const auto options = options_of(1000);
  const std::string expected = train_on(text, options).fingerprint();
  const Path path = folder / "text";
  const int before = team_size();
  for (const int team : {1, 2, 5}) {
    set_team_size(team);
    CHECK(train_tokenizer(std::span(&path, 1), options).fingerprint() == expected);
  }
  set_team_size(before);
  TokenizerTrainer parts;
  std::mt19937 random(4);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t size = random() % 3 == 0 ? 1 + random() % 10 : random() % 100000;
    parts.add_part(std::string_view(text).substr(at, size));
    at += size;
  }
  CHECK(parts.finish(options).fingerprint() == expected);
  CHECK(parts.bytes() == static_cast<Index>(text.size()));
  CHECK(parts.finish(options_of(300)).fingerprint() ==
        train_on(text, options_of(300)).fingerprint());
}

TEST_CASE("training: no word spans two texts, nor the end of a line") {
  TokenizerTrainer two;
  for (int i = 0; i < 10; ++i) two.add_text("ab");  // b and a never meet
  const Tokenizer t = two.finish(options_of(300, 1));
  CHECK(t.vocabulary_size() == 258);
  CHECK(t.token_bytes(257) == "ab");
  // "\n\n" would be one word at the end of a text; by lines each is a word of its own.
  CHECK(train_on("a\n\na\n\n", options_of(300, 1)).vocabulary_size() == 257);
}

TEST_CASE("training: special tokens in the text are ordinary text, bytes need not be UTF-8") {
  std::string text;
  for (int i = 0; i < 20; ++i) text += "<|endoftext|>\xff\xfe ";
  const Tokenizer t = train_on(text, options_of(280));
  for (const TokenId id : t.encode(text)) CHECK(id != t.end_of_text());
  CHECK(t.decode(t.encode(text)) == text);
  CHECK(t.encode("endoftext").size() == 1);
  CHECK(t.vocabulary_size() < 280);
}

TEST_CASE("training reports progress that ends at the vocabulary's size") {
  std::vector<TrainProgress> seen;
  TokenizerTrainer trainer([&](const TrainProgress& p) { seen.push_back(p); });
  const std::string text = synthetic_text(10000, 1);
  trainer.add_text(text);
  trainer.finish(options_of(500));
  REQUIRE(seen.size() >= 3);
  CHECK(seen.front().phase == TrainProgress::Phase::Reading);
  CHECK(seen.front().done == static_cast<Index>(text.size()));
  CHECK(seen.back().phase == TrainProgress::Phase::Merging);
  CHECK(seen.back().done == 500);
  CHECK(seen.back().total == 500);
}

TEST_CASE("training refuses what cannot be met, as bad usage, and input without text") {
  const auto usage = [](const TrainOptions& options, const std::string& piece) {
    check_error([&] { train_on("some text", options); }, piece);
    CHECK_THROWS_AS(train_on("some text", options), UsageError);
  };
  usage(options_of(256), "the vocabulary size is 256; it must be at least 257");
  usage(options_of(-5), "the vocabulary size is -5");
  usage(options_of(Index{1} << 40), "less than 2^31");
  usage(options_of(300, -1), "the minimum frequency is -1");
  TrainOptions specials = options_of(300);
  specials.special_tokens = {"<a>", "<a>"};
  usage(specials, "given twice");
  for (const char* token : {"", "pad", "<>", "<|>", "<a b>", "<a", "[a>"}) {
    specials.special_tokens = {token};
    usage(specials, "cannot be a special token");
  }
  check_error([] { TokenizerTrainer().finish(options_of(300)); }, "no text to train");
  TemporaryFolder folder;
  spit(folder / "empty", "");
  const std::vector<Path> empty = {folder / "empty"}, directory = {folder.path()},
                          missing = {folder / "missing"};
  check_error([&] { train_tokenizer(empty, options_of(300)); }, "all input is empty");
  check_error([&] { train_tokenizer(directory, options_of(300)); }, "is a directory");
  check_error([&] { train_tokenizer(missing, options_of(300)); }, "cannot open");
  CHECK_THROWS_AS(train_tokenizer({}, options_of(300)), UsageError);
}
