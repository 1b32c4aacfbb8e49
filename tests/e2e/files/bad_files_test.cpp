// Bad files and directories: exit code 1, with the path, what is wrong and the way out; nothing is
// lost.
#include "e2e/bad_input.h"

namespace chimera::test {
namespace {

// Overwrites one byte of a file.
std::string poke(const std::string& file, const std::string& offset, const std::string& octal) {
  return "printf '\\" + octal + "' | dd of=" + file +
         " bs=1 conv=notrunc status=none seek=" + offset + "\n";
}

// Training on the case's bad.bin.
BadInput shard(const std::string& name, const std::string& prepare,
               const std::vector<std::string>& pieces) {
  return {name, prepare, "train ../config.json --set data.train=bad.bin", 1, pieces};
}

const std::string kShard = "cp ../data/train-000001.bin bad.bin\n";
const std::string kCheckpoints = "cp -r ../run/checkpoints .\n";
const std::string kLast = "checkpoints/step-00000012/";

}  // namespace

TEST_CASE("bad input: data of a training") {
  const BadInputs project;
  const std::vector<int> high(200, 300);  // the vocabulary ends at 299
  spit(project / "high.bin", shard_bytes(high));
  spit(project / "short.bin", shard_bytes({1, 2, 3, 4, 5, 6, 7, 8}));  // one sample takes 9
  spit(project / "more.txt", slurp(project / "text.txt") + "and some other words to be learned");
  REQUIRE(project.run(".", "tokenizer train --vocab-size 316 --output other more.txt").exit_code ==
          0);
  REQUIRE(
      project.run(".", "data prepare --tokenizer other --output otherdata text.txt").exit_code ==
      0);
  project.check({
      shard("missing", "", {"bad.bin"}),
      shard("folder", "mkdir bad.bin", {"bad.bin is a directory"}),
      shard("empty", ": >bad.bin", {"bad.bin has 0 bytes", "header of 1024"}),
      shard("garbage", "head -c 5000 /dev/zero >bad.bin",
            {"bad.bin is not a token shard", "data prepare"}),
      shard("truncated", kShard + "truncate -s -10 bad.bin", {"bad.bin", "cut short"}),
      shard("too long", kShard + "echo >>bad.bin", {"bad.bin", "too long"}),
      shard("wrong magic", kShard + poke("bad.bin", "0", "377"), {"is not a token shard"}),
      shard("wrong version", kShard + poke("bad.bin", "4", "011"), {"shard version 9 at byte 4"}),
      shard("negative count", kShard + poke("bad.bin", "11", "377"), {"bad.bin", "at byte 8"}),
      shard("id out of range", "cp ../high.bin bad.bin", {"token id 300 at byte", "size 300"}),
      shard("short of a sample", "cp ../short.bin bad.bin", {"8 tokens; one sample needs 9"}),
      shard("loop of links", "ln -s bad.bin bad.bin", {"bad.bin"}),
      {"no match", "", "train ../config.json --set 'data.train=none-*.bin'", 1, {"none-*.bin"}},
      {"twice",
       "",
       "train ../config.json --set 'data.train=[\"../data/*.bin\",\"../data/*.bin\"]'",
       1,
       {"is named twice"}},
      {"bad validation",
       kShard + "truncate -s -10 bad.bin",
       "train ../config.json --set data.validation=bad.bin",
       1,
       {"bad.bin", "cut short"}},
      {"vocabulary of tokenizer",
       "",
       "train ../config.json --set data.tokenizer=../other",
       1,
       {"../other has 316 ids; model.vocab_size is 300"}},
      {"vocabulary of data",
       "",
       "train ../config.json --set 'data.train=../otherdata/*.bin' --set 'data.tokenizer=\"\"'",
       1,
       {"vocabulary of 316", "model.vocab_size is 300"}},
      {"other tokenizer",
       "",
       "train ../config.json --set model.vocab_size=316 --set data.tokenizer=../other",
       1,
       {"was made by another tokenizer than data.tokenizer ../other"}},
      {"missing tokenizer",
       "",
       "train ../config.json --set data.tokenizer=none",
       1,
       {"no tokenizer at none"}},
      {"garbage tokenizer",
       "mkdir t; echo '{\"a\": 0' >t/vocab.json; echo >t/merges.txt",
       "train ../config.json --set data.tokenizer=t",
       1,
       {"t/vocab.json"}},
      {"init from nothing", "", "train ../config.json --set train.init_from=none", 1, {"none"}},
      {"init from garbage",
       "mkdir m; echo hello >m/model.safetensors",
       "train ../config.json --set train.init_from=m",
       1,
       {"m/model.safetensors"}},
      {"init from another model",
       "",
       "train ../config.json --set model.n_embd=32 --set train.init_from=../run/checkpoints",
       1,
       {"transformer."}},
  });
}

TEST_CASE("bad input: checkpoints and directories of a training") {
  const BadInputs project;
  const std::string train = "train ../config.json ";
  const std::string flip = poke(kLast + "optimizer-00001-of-00004.safetensors", "3000", "125");
  project.check({
      // auto passes a damaged checkpoint over and says so; a directory that is named must be whole.
      {"damaged checkpoint auto",
       kCheckpoints + flip,
       train,
       0,
       {"passed over a damaged checkpoint", kLast + "optimizer-00001-of-00004.safetensors"}},
      {"damaged checkpoint named",
       kCheckpoints + flip,
       train + "--resume " + kLast,
       1,
       {kLast, "optimizer-00001-of-00004.safetensors"}},
      {"truncated tensor file",
       kCheckpoints + "truncate -s -4 " + kLast + "model-00001*",
       train + "--resume " + kLast,
       1,
       {"model-00001-of-00004.safetensors"}},
      {"missing tensor file",
       kCheckpoints + "rm " + kLast + "model-00002*",
       train + "--resume " + kLast,
       1,
       {"model-00002-of-00004.safetensors"}},
      {"no manifest",
       kCheckpoints + "rm " + kLast + "manifest.json",
       train + "--resume " + kLast,
       1,
       {kLast}},
      {"garbage manifest",
       kCheckpoints + "echo '{' >" + kLast + "manifest.json",
       train + "--resume " + kLast,
       1,
       {"manifest.json"}},
      {"all damaged",
       kCheckpoints + "rm checkpoints/*/manifest.json",
       train + "--resume checkpoints",
       1,
       {"checkpoints"}},
      {"another model",
       kCheckpoints,
       train + "--set model.n_embd=32",
       1,
       {"has model.n_embd 16, the configuration 32", "--resume never"}},
      {"another vocabulary",
       kCheckpoints,
       train + "--set model.vocab_size=301",
       1,
       {"model.vocab_size 300, the configuration 301"}},
      {"log below a file", ": >f", train + "--set log.directory=f/log", 1, {"f/log"}},
      {"log impossible", "", train + "--set log.directory=/proc/none/log", 1, {"/proc/none"}},
      {"checkpoints below a file", ": >f", train + "--set checkpoint.directory=f/c", 1, {"f/c"}},
      {"checkpoints is a file", ": >f", train + "--set checkpoint.directory=f", 1, {"f"}},
      {"checkpoints impossible",
       "",
       train + "--set checkpoint.directory=/proc/none",
       1,
       {"/proc/none"}},
      {"loss not finite",
       "",
       train + diverging() + " --set checkpoint.keep=2",
       1,
       {"step ", "not finite", "no worker applied the step", "Lower optimizer.learning_rate"}},
  });
  // The step before the one that failed is the newest checkpoint, and whole.
  const CommandResult verdict =
      project.run("case-loss-not-finite", "checkpoint verify checkpoints");
  CHECK(verdict.exit_code == 0);
  const std::string log = slurp(project / "case-loss-not-finite/log/metrics.jsonl");
  const auto saved = project.newest("case-loss-not-finite").filename().string();
  CHECK_THAT(log, Catch::EndsWith("\"checkpoint\":\"checkpoints/" + saved + "\"}\n"));
}

TEST_CASE("bad input: two runs in one directory") {
  const Project project;
  const CommandResult r =
      run_command("cd " + project.path().string() + "\nmkdir run && cd run\n" + without_launcher() +
                  "mkdir -p checkpoints log\n"
                  "for held in checkpoints log; do\n"
                  "  exec 9>$held/.lock; flock 9\n"
                  "  " +
                  chimera_binary().string() +
                  " train ../config.json 9>&-; echo \"exit code $?\"\n"
                  "  exec 9>&-\ndone\nls checkpoints");
  INFO(r.out << r.err);
  CHECK(r.out == "exit code 1\nexit code 1\n");
  CHECK_THAT(r.err, Catch::Contains("the checkpoint directory") &&
                        Catch::Contains("the log directory") && Catch::Contains(".lock"));
}

}  // namespace chimera::test
