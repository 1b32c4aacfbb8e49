#include <map>

#include "chimera/base/threads.h"
#include "chimera/tokenizer/scanner.h"
#include "tokenizer_support.h"

using namespace chimera;
using namespace chimera::test;

namespace {

// BPE as its definition says, by ranks of strings: quadratic, and all there is to it.
std::vector<std::string> merge_by_ranks(const std::string& word,
                                        const std::map<std::string, int>& ranks) {
  std::vector<std::string> parts;
  for (const char c : word) parts.emplace_back(1, c);
  if (ranks.count(word)) return {word};
  for (;;) {
    int best = -1, rank = 1 << 30;
    for (int i = 0; i + 1 < static_cast<int>(parts.size()); ++i) {
      const auto found = ranks.find(parts[i] + parts[i + 1]);
      if (found != ranks.end() && found->second < rank) best = i, rank = found->second;
    }
    if (best < 0) return parts;
    parts[best] += parts[best + 1];
    parts.erase(parts.begin() + best + 1);
  }
}

std::vector<std::string> strings_of(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  std::vector<std::string> out;
  for (const TokenId id : ids) out.emplace_back(tokenizer.token_bytes(id));
  return out;
}

std::string from_letters(std::mt19937& random, const char* letters, int size) {
  std::string out;
  const auto count = std::string_view(letters).size();
  for (int i = 0; i < size; ++i) out += letters[random() % count];
  return out;
}

Tokenizer load_ranks(const std::vector<std::string>& tokens) {
  TemporaryFolder folder;
  spit(folder / "t.tiktoken", rank_file(tokens));
  return Tokenizer::load(folder / "t.tiktoken");
}

}  // namespace

// Random sets of tokens that no training would make: tokens without a merge of their own (only the
// whole-word rule finds them), several splits of one token, ranks in any order.
TEST_CASE("encode: ranks decide as their definition says, for arbitrary sets of tokens") {
  std::mt19937 random(5);
  int not_derivable = 0;
  for (int round = 0; round < 60; ++round) {
    std::map<std::string, int> ranks;
    std::vector<std::string> tokens;
    for (int i = 0; i < 40; ++i) {
      const std::string token = from_letters(random, "abc", 2 + static_cast<int>(random() % 5));
      if (ranks.emplace(token, 256 + static_cast<int>(tokens.size())).second)
        tokens.push_back(token);
    }
    for (int byte = 0; byte < 256; ++byte) ranks[std::string(1, static_cast<char>(byte))] = byte;
    const Tokenizer tokenizer = load_ranks(tokens);
    for (int i = 0; i < 100; ++i) {
      // Past 48 bytes a heap takes over from the scan.
      const std::string word = from_letters(random, "abc", 1 + static_cast<int>(random() % 120));
      CHECK(strings_of(tokenizer, tokenizer.encode(word)) == merge_by_ranks(word, ranks));
    }
    try {
      tokenizer.files();
    } catch (const Error& e) {
      ++not_derivable;
      CHECK(std::string(e.what()).find("no list of merges") != std::string::npos);
    }
  }
  CHECK(not_derivable > 30);
}

TEST_CASE("encode: only listed merges count, though another split makes the same token") {
  const Tokenizer bytes = small_tokenizer(257);
  // abc is made of a + bc alone, but ab goes first: in a list of merges nothing makes ab + c.
  std::string vocab = bytes.files()[0].second;
  vocab.pop_back();
  vocab += ",\"ab\":257,\"bc\":258,\"abc\":259}";
  TemporaryFolder folder;
  const auto path = tokenizer_folder(folder, vocab, "#version: 0.2\na b\nb c\na bc\n");
  const Tokenizer listed = Tokenizer::load(path);
  CHECK(strings_of(listed, listed.encode("abc")) == std::vector<std::string>{"ab", "c"});
  const Tokenizer ranked = load_ranks({"ab", "bc", "abc"});
  CHECK(strings_of(ranked, ranked.encode("abc")) == std::vector<std::string>{"abc"});
  check_error([&] { listed.save_tiktoken(folder / "x.tiktoken"); }, "last id");
}

TEST_CASE("encode: long words merge as short ones, from left to right") {
  const Tokenizer t = load_ranks({"aa", "aaaa", "  ", "    "});
  for (const int n : {1, 2, 3, 7, 47, 48, 49, 50, 1001}) {
    const auto ids = t.encode(std::string(n, 'a'));
    std::vector<TokenId> expected(n / 4, 257);
    if (n % 4 >= 2) expected.push_back(256);
    if (n % 2 == 1) expected.push_back('a');
    CHECK(ids == expected);
  }
  // A heap makes this n log n: a quadratic merge of 4 MB would not end within the test's limit.
  CHECK(t.encode(std::string(4'000'000, ' ')).size() == 1'000'000);
  CHECK(t.encode(std::string(4'000'001, 'a')).size() == 1'000'001);
}

TEST_CASE("encode and decode are inverse on any bytes, with and without a scratch, in parallel") {
  const Tokenizer tokenizer = small_tokenizer();
  EncodeScratch scratch;
  std::mt19937 random(11);
  std::vector<TokenId> ids;
  for (int i = 0; i < 4000; ++i) {
    const std::string text = i % 2 == 0 ? random_bytes(random, static_cast<int>(random() % 200))
                                        : random_text(random, static_cast<int>(random() % 100));
    const auto special = i % 4 < 2 ? SpecialTokens::AsText : SpecialTokens::Recognize;
    ids.assign(1, 7);
    tokenizer.encode(text, special, scratch, ids);
    REQUIRE(ids[0] == 7);  // it appends
    ids.erase(ids.begin());
    CHECK(ids == tokenizer.encode(text, special));
    CHECK(tokenizer.decode(ids) == text);
  }
  std::string text =
      synthetic_text(700000, 9) + std::string(kEndOfText) + random_bytes(random, 9999);
  REQUIRE(text.size() > std::size_t{3} << 20);  // several pieces of 1 MiB
  for (const auto special : {SpecialTokens::AsText, SpecialTokens::Recognize})
    CHECK(tokenizer.encode_parallel(text, special) == tokenizer.encode(text, special));
}

TEST_CASE("encode: one scratch serves two tokenizers in turn") {
  const Tokenizer a = small_tokenizer(300), b = small_tokenizer(500);
  EncodeScratch scratch;
  const std::string text = synthetic_text(3000, 2);
  for (int i = 0; i < 3; ++i)
    for (const Tokenizer* tokenizer : {&a, &b}) {
      std::vector<TokenId> ids;
      tokenizer->encode(text, SpecialTokens::AsText, scratch, ids);
      CHECK(ids == tokenizer->encode(text));
    }
}

TEST_CASE("encode: special tokens cut the text only where they are recognised") {
  const Tokenizer t = small_tokenizer();
  const TokenId end = t.end_of_text().value();
  CHECK(end == 0);
  const std::string text = "a \n<|endoftext|><|endoftext|> b<|endoftext";
  auto expected = t.encode("a \n");
  expected.insert(expected.end(), {end, end});
  const auto rest = t.encode(" b<|endoftext");
  expected.insert(expected.end(), rest.begin(), rest.end());
  CHECK(t.encode(text, SpecialTokens::Recognize) == expected);
  for (const TokenId id : t.encode(text)) CHECK(id != end);
  CHECK(t.decode(t.encode(text)) == text);
}

TEST_CASE("encode: of several special tokens that begin at one place the longest counts") {
  TokenizerTrainer trainer;
  trainer.add_text("some text, some text");
  TrainOptions options;
  options.vocab_size = 259;
  options.special_tokens = {"<a>", "<a><b>", "[PAD]"};
  const Tokenizer t = trainer.finish(options);
  CHECK(t.encode("<a><b><a>[PAD]", SpecialTokens::Recognize) == std::vector<TokenId>{1, 0, 2});
  CHECK(!t.end_of_text());
  TemporaryFolder folder;
  t.save(folder / "t");
  CHECK(Tokenizer::load(folder / "t").special_tokens() == std::vector<TokenId>{0, 1, 2});
}

TEST_CASE(
    "decode: any ids of the vocabulary, also in the midst of a character; others are errors") {
  const Tokenizer t = small_tokenizer();
  std::mt19937 random(1);
  for (int i = 0; i < 200; ++i) {
    std::vector<TokenId> ids;
    std::string expected;
    for (int k = 0; k < 50; ++k) {
      ids.push_back(static_cast<TokenId>(random() % t.vocabulary_size()));
      expected += t.token_bytes(ids.back());
    }
    CHECK(t.decode(ids) == expected);
  }
  const auto half = t.encode("é");
  REQUIRE(half.size() == 2);
  CHECK(t.decode(std::vector<TokenId>{half[0]}) == "\xc3");
  for (const TokenId id : {-1, 600, std::numeric_limits<TokenId>::max()})
    check_error(
        [&] {
          t.decode(std::vector<TokenId>{1, id});
        },
        "token id " + std::to_string(id) + " is outside the vocabulary of 600 tokens");
}
