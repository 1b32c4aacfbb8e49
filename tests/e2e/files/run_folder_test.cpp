// What a run leaves in its folders, and what must not change it.
#include <cmath>
#include <nlohmann/json.hpp>

#include "e2e/project.h"

namespace chimera::test {
namespace {

using Catch::Contains;
namespace fs = std::filesystem;

}  // namespace

TEST_CASE("run: metrics, the resolved configuration and the build are in the log directory") {
  const Project project;
  const CommandResult r = project.train("run", "--set train.log_every=5");
  REQUIRE(r.exit_code == 0);
  std::vector<Index> logged;
  for (const Json& line : project.metrics("run", "loss")) {
    logged.push_back(line.at("step").get<Index>());
    for (const char* key : {"loss", "grad_norm", "learning_rate", "step_seconds",
                            "tokens_per_second", "data_seconds", "tokens"}) {
      CHECK(line.at(key).is_number());
      CHECK(line.at(key).get<double>() >= 0);
    }
    CHECK(line.at("tokens") == line.at("step").get<Index>() * 4 * 8);
  }
  CHECK(logged == std::vector<Index>{1, 5, 10, 12});
  // The first losses are near log(300) = 5.70, what equal probabilities give; words are learned.
  CHECK(std::abs(project.metrics("run", "loss")[0].at("loss").get<double>() - std::log(300)) < 0.3);
  CHECK(project.metrics("run", "loss").back().at("loss").get<double>() < 5);
  CHECK(project.metrics("run", "checkpoint").size() == 4);

  for (const char* piece : {"step     12/12 | loss ", " | norm ", " | lr ", " ms | ", " tok/s | ",
                            " | mem ", " | data ", " | ETA ", "MFU ", "validation loss",
                            "schedule: chimera", "memory of worker 0", "total"})
    CHECK_THAT(r.out, Contains(piece));

  const Json config = Json::parse(slurp(project / "run/log/config.json"));
  CHECK(config.at("train").at("log_every") == 5);
  CHECK(config.at("model").at("resid_pdrop") == 0.1);  // a default, written out
  CHECK(config.at("optimizer").at("beta2") == 0.95);
  const Json build = Json::parse(slurp(project / "run/log/build.json"));
  for (const char* key : {"build", "isa", "matmul", "mpi", "layout", "threads"})
    CHECK(build.at(key).is_string());
  // The resolved configuration is a configuration: it gives the same run.
  fs::create_directories(project / "again");
  REQUIRE(project.run("again", "train ../run/log/config.json").exit_code == 0);
  CHECK(curve(project, "again") == curve(project, "run"));
  CHECK(project.checkpoint_files("again") == project.checkpoint_files("run"));
}

TEST_CASE("run: --check shows the plan and leaves nothing behind") {
  const Project project;
  const CommandResult r = project.train("run", "--check");
  CHECK(r.exit_code == 0);
  CHECK_THAT(r.out, Contains("schedule: chimera") && Contains("memory of worker 0") &&
                        Contains("195 samples") && !Contains("loss"));
  CHECK(fs::is_empty(project / "run"));
  CHECK(project.train("run", "--check --set data.train=none.bin").exit_code == 1);
}

TEST_CASE("run: neither evaluation, samples of text, logging nor checkpoints change the training") {
  const Project project;
  REQUIRE(project.train("plain", "--set train.eval_every=0").exit_code == 0);
  REQUIRE(project
              .train("busy",
                     "--set train.eval_every=1 --set train.eval_batches=3 --set "
                     "train.sample_every=1 --set train.log_every=1 --set checkpoint.every=1")
              .exit_code == 0);
  CHECK(project.metrics("plain", "loss").size() == 12);
  CHECK(project.metrics("plain", "validation_loss").empty());
  CHECK(project.metrics("busy", "validation_loss").size() == 12);
  CHECK(project.metrics("busy", "sample").size() == 12);
  const auto losses = [&](const std::string& where) {
    std::string out;
    for (const Json& line : project.metrics(where, "loss"))
      out += Json{line.at("loss"), line.at("grad_norm")}.dump();
    return out;
  };
  CHECK(losses("plain") == losses("busy"));
  const auto plain = project.checkpoint_files("plain"), busy = project.checkpoint_files("busy");
  int compared = 0;
  for (const auto& [name, content] : plain)
    if (name.starts_with("step-00000012/") && name.ends_with(".safetensors")) {
      ++compared;
      CHECK(busy.at(name) == content);
    }
  CHECK(compared == 8);  // weights and moments of four workers
}

TEST_CASE("run: the same command again has nothing to do; checkpoints are never overwritten") {
  const Project project;
  REQUIRE(project.train("run").exit_code == 0);
  const auto files = project.checkpoint_files("run");
  const auto before = curve(project, "run");
  const CommandResult again = project.train("run");
  CHECK(again.exit_code == 0);
  CHECK_THAT(again.out, Contains("nothing to do: the checkpoint has 12 steps"));
  for (const std::string from : {"never", "checkpoints/step-00000006"}) {
    const CommandResult r = project.train("run", "--resume " + from);
    INFO(r.err);
    CHECK(r.exit_code == 2);
    CHECK_THAT(r.err, Contains("step 12") && Contains("another checkpoint.directory"));
  }
  CHECK(project.checkpoint_files("run") == files);
  CHECK(curve(project, "run") == before);
  // From a checkpoint in the middle, into directories of its own: the same end.
  const CommandResult middle = project.train("middle", "--resume ../run/checkpoints/step-00000006");
  CHECK_THAT(middle.out, Contains("resumed from ../run/checkpoints/step-00000006 after step 6"));
  const auto again_files = project.checkpoint_files("middle");
  int compared = 0;
  for (const auto& [name, content] : again_files) {
    CHECK(files.at(name) == content);
    ++compared;
  }
  CHECK(compared > 20);  // steps 9 and 12
}

TEST_CASE("run: a second run in the same directories is refused while the first one runs") {
  const Project project;
  const CommandResult r = run_command(
      "cd " + project.path().string() + "\nmkdir run && cd run\n" + without_launcher() +
      chimera_binary().string() +
      " train ../config.json --set train.steps=100000 >/dev/null &\n"
      "first=$!\nuntil [ -s log/metrics.jsonl ]; do sleep 0.01; done\n" +
      chimera_binary().string() + " train ../config.json >second; echo \"second $?\"\n" +
      chimera_binary().string() +
      " train ../config.json --set checkpoint.directory=other >third; echo \"third $?\"\n"
      "kill -TERM $first; wait $first; echo \"first $?\"");
  INFO(r.out << r.err);
  CHECK(r.out == "second 1\nthird 1\nfirst 3\n");
  CHECK_THAT(r.err, Contains("the checkpoint directory") && Contains("the log directory"));
}

TEST_CASE("run: eval of a checkpoint gives the validation loss that training logged") {
  const Project project;
  REQUIRE(project.train("run").exit_code == 0);
  const double logged =
      project.metrics("run", "validation_loss").back().at("validation_loss").get<double>();
  // eval_batches 2 of 4 samples.
  const CommandResult r =
      project.run("run", "eval --checkpoint checkpoints --data ../data/val-000000.bin --samples 8");
  INFO(r.out << r.err);
  REQUIRE(r.exit_code == 0);
  char line[32];
  std::snprintf(line, sizeof line, "loss        %.4f", logged);
  CHECK_THAT(r.out, Contains(line) && Contains("(step 12)") && Contains("in 8 samples of 8") &&
                        Contains("perplexity") && !Contains("bits/byte"));
  // Bytes per token are known of the whole data alone.
  const CommandResult whole =
      project.run("run", "eval --checkpoint checkpoints --data ../data/val-000000.bin");
  CHECK_THAT(whole.out, Contains("bits/byte"));
}

}  // namespace chimera::test
