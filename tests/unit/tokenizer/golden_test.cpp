// Against tiktoken and Hugging Face's tokenizers: what they gave lies in the reference folder (see
// its README), and for a small text of our own in fixture/, which is always there.
#include <fstream>
#include <nlohmann/json.hpp>

#include "tokenizer_support.h"

using namespace chimera;
using namespace chimera::test;
namespace fs = std::filesystem;

namespace {

std::string from_hex(const std::string& hex) {
  std::string out;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
    out += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return out;
}

// False, with a line that says so, where the user has no reference values.
bool has(const std::optional<fs::path>& path, const std::string& what) {
  if (path && fs::exists(*path)) return true;
  WARN("not compared: " << what << " is not there");
  if (getenv("CHIMERA_GOLDEN") != nullptr)
    FAIL("CHIMERA_GOLDEN is set, so its files must be there");
  return false;
}

}  // namespace

TEST_CASE("golden: encode gives tiktoken's ids, special tokens as text and recognised") {
  const auto ranks = shared_data("gpt2.tiktoken");
  const fs::path cases = golden_folder() / "tokenizer_gpt2.jsonl";
  if (!has(ranks, "gpt2.tiktoken") || !has(cases, cases.string())) return;
  const Tokenizer tokenizer = Tokenizer::load(*ranks);
  std::ifstream lines(cases);
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const auto row = nlohmann::json::parse(line);
    const std::string text = from_hex(row.at("utf8_hex"));
    CAPTURE(text);
    const auto ids = row.at("ids").get<std::vector<TokenId>>();
    CHECK(tokenizer.encode(text) == ids);
    CHECK(tokenizer.encode(text, SpecialTokens::Recognize) ==
          row.at("ids_special").get<std::vector<TokenId>>());
    CHECK(tokenizer.decode(ids) == text);
  }
  CHECK(count > 0);
}

TEST_CASE("golden: GPT-2's ranks through vocab.json + merges.txt and back are the same file") {
  const auto ranks = shared_data("gpt2.tiktoken");
  if (!has(ranks, "gpt2.tiktoken")) return;
  const Tokenizer tokenizer = Tokenizer::load(*ranks);
  CHECK(tokenizer.end_of_text() == tokenizer.vocabulary_size() - 1);
  TemporaryFolder folder;
  tokenizer.save(folder / "gpt2");
  const Tokenizer loaded = Tokenizer::load(folder / "gpt2");
  CHECK(loaded.fingerprint() == tokenizer.fingerprint());
  CHECK(loaded.merge_count() == tokenizer.vocabulary_size() - 257);
  loaded.save_tiktoken(folder / "gpt2.tiktoken");
  CHECK(slurp(folder / "gpt2.tiktoken") == slurp(*ranks));
}

TEST_CASE("golden: training gives the files of Hugging Face's tokenizers, byte for byte") {
  const auto corpus = shared_data("genesis.txt");
  if (!has(corpus, "genesis.txt")) return;
  int folders = 0;
  for (const auto& entry : fs::directory_iterator(golden_folder())) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("bpe_")) continue;
    ++folders;
    CAPTURE(name);
    TrainOptions options;
    options.vocab_size = std::stoll(name.substr(4));
    const Path path = *corpus;
    const Tokenizer tokenizer = train_tokenizer(std::span(&path, 1), options);
    for (const auto& [file, content] : tokenizer.files())
      CHECK((content == slurp(entry.path() / file)));
    CHECK(Tokenizer::load(entry.path()).fingerprint() == tokenizer.fingerprint());
  }
  if (folders == 0) has(std::nullopt, "a folder bpe_N");
}

TEST_CASE("golden: training and encoding on our own text are those of tokenizers and tiktoken") {
  const fs::path folder = source_folder() / "tests" / "unit" / "tokenizer" / "fixture";
  const Path corpus = folder / "corpus.txt";
  TrainOptions options;
  options.vocab_size = 600;
  const Tokenizer listed = train_tokenizer(std::span(&corpus, 1), options);
  for (const auto& [file, content] : listed.files())
    CHECK((content == slurp(folder / "bpe" / file)));
  const Tokenizer ranked = Tokenizer::load(folder / "ranks.tiktoken");
  std::ifstream lines(folder / "cases.jsonl");
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const auto row = nlohmann::json::parse(line);
    const std::string text = from_hex(row.at("utf8_hex"));
    CAPTURE(text);
    CHECK(ranked.encode(text) == row.at("ranked").get<std::vector<TokenId>>());
    CHECK(ranked.encode(text, SpecialTokens::Recognize) ==
          row.at("ranked_special").get<std::vector<TokenId>>());
    if (row.contains("listed"))
      CHECK(listed.encode(text) == row.at("listed").get<std::vector<TokenId>>());
  }
  CHECK(count == 194);
}
