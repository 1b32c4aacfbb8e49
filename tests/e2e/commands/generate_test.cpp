// Text from a trained checkpoint.
#include <set>

#include "e2e/project.h"

namespace chimera::test {
namespace {

using Catch::Contains;

struct Trained : Project {
  Trained() {
    // Without dropout and with many steps the words of the text come out.
    const CommandResult r = train("run",
                                  "--set train.steps=200 --set train.eval_every=0 --set "
                                  "checkpoint.every=0 --set train.log_every=100");
    if (r.exit_code != 0) throw std::runtime_error(r.err);
  }
  std::string text(const std::string& arguments) const {
    const CommandResult r = run("run", "generate --checkpoint checkpoints " + arguments);
    if (r.exit_code != 0) throw std::runtime_error(r.err);
    return r.out;
  }
};

}  // namespace

TEST_CASE("generate: a function of the prompt, the options and the seed") {
  const Trained project;
  const std::string first = project.text("--prompt 'the sea' --seed 4");
  CHECK(first.starts_with("the sea"));
  CHECK(first.size() > std::string("the sea\n").size());
  CHECK(project.text("--prompt 'the sea' --seed 4") == first);
  std::set<std::string> texts;
  for (int seed = 0; seed < 8; ++seed)
    texts.insert(project.text("--prompt 'the sea' --seed " + std::to_string(seed)));
  CHECK(texts.size() > 2);
  // Each sample has a seed of its own, counted up.
  const std::string three = project.text("--prompt 'the sea' --seed 3 --samples 2");
  CHECK_THAT(three, Contains("--- sample 1\n") && Contains("--- sample 2\n" + first));
}

TEST_CASE("generate: temperature 0, top-k 1 and a tiny top-p are the likeliest token") {
  const Trained project;
  const std::string likeliest = project.text("--prompt and --temperature 0");
  for (const char* options : {"--top-k 1 --seed 2", "--top-k 1 --temperature 5 --seed 3",
                              "--top-p 0.000001 --temperature 3 --seed 4",
                              "--temperature 0 --seed 9 --top-k 5 --top-p 0.5"})
    CHECK(project.text(std::string("--prompt and ") + options) == likeliest);
  // At a temperature of 100 all 300 tokens are nearly alike: top-k 2 leaves few texts, all of them
  // many.
  std::set<std::string> narrow, wide;
  for (int seed = 0; seed < 12; ++seed) {
    const std::string common =
        "--prompt and --max-tokens 1 --temperature 100 --seed " + std::to_string(seed);
    narrow.insert(project.text(common + " --top-k 2"));
    wide.insert(project.text(common));
  }
  CHECK(narrow.size() == 2);
  CHECK(wide.size() > 6);
}

TEST_CASE("generate: it ends at the limit, at the context's end and at the end of the text") {
  const Trained project;
  const std::string one = project.text("--prompt 'the' --max-tokens 1 --temperature 0");
  const std::string many = project.text("--prompt 'the' --max-tokens 4 --temperature 0");
  CHECK(many.starts_with(one.substr(0, one.size() - 1)));  // without the newline
  CHECK(many.size() > one.size());
  const CommandResult full = project.run(
      "run", "generate --checkpoint checkpoints --prompt the --max-tokens 100 --temperature 0");
  CHECK(full.exit_code == 0);
  CHECK_THAT(full.err, Contains("the context of 8 tokens is full"));
  // An empty prompt begins a document.
  CHECK(!project.text("--temperature 0").empty());
  CHECK(project.text("--prompt '' --temperature 0") == project.text("--temperature 0"));
}

TEST_CASE("generate: it stops at <|endoftext|>, which is not printed") {
  const Project project;
  // A text in which the end of text follows every token: the model learns nothing else.
  std::vector<int> tokens;
  const CommandResult info = project.run(".", "tokenizer info --tokenizer tokenizer");
  const auto at = info.out.find("end of text  ");
  REQUIRE(at != info.out.npos);
  const int end = std::stoi(info.out.substr(at + 13));
  for (int i = 0; i < 400; ++i) tokens.push_back(i % 2 == 0 ? 40 + i % 50 : end);
  spit(project / "ends.bin", shard_bytes(tokens));
  const CommandResult trained = project.train(
      "run",
      "--set data.train=../ends.bin --set 'data.validation=[]' --set train.steps=150 --set "
      "model.resid_pdrop=0 --set model.embd_pdrop=0 --set model.attn_pdrop=0");
  REQUIRE(trained.exit_code == 0);
  // "(" is one of the tokens seen.
  const CommandResult r = project.run(
      "run", "generate --checkpoint checkpoints --prompt '(' --temperature 0 --max-tokens 5");
  INFO(trained.out << r.out << r.err);
  CHECK(r.exit_code == 0);
  CHECK(r.out == "(\n");
  CHECK(r.err.empty());
}

TEST_CASE("generate: what any layout trained, one process continues") {
  const Project project;
  REQUIRE(project.train("chimera").exit_code == 0);
  REQUIRE(
      project
          .train("serial",
                 "--set parallel.schedule=1f1b --set parallel.depth=1 --set train.init_from=null")
          .exit_code == 0);
  for (const std::string where : {"chimera", "serial"}) {
    const CommandResult r =
        project.run(where, "generate --checkpoint checkpoints --prompt the --temperature 0");
    CHECK(r.exit_code == 0);
    CHECK(r.out.starts_with("the"));
  }
}

}  // namespace chimera::test
