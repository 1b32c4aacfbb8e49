// The paper's page by its script, and the paper's model: counted, checked, and one step of it
// scaled down.
#include <cmath>
#include <nlohmann/json.hpp>

#include "e2e/project.h"

namespace chimera::test {
namespace {

std::string config_path() {
  return (source_folder() / "configs/gpt2-1.3b-chimera-d32.json").string();
}

TEST_CASE("the paper's page is written by its script, within its minute") {
  TemporaryFolder folder;
  const std::string out = (folder / "page").string();
  // The deadline is the claim: a minute.
  const CommandResult r =
      run_command("CHIMERA=" + chimera_binary().string() + " " +
                      (source_folder() / "scripts/reproduce_paper.sh").string() + " " + out,
                  /*timeout_seconds=*/60);
  REQUIRE(r.exit_code == 0);
  const std::string md = slurp(folder / "page/paper.md"), html = slurp(folder / "page/paper.html");
  for (const char* row :
       {"| Chimera | 3/11 = 27.27 % | 1/3 = 33.33 % |",  // Table 2, D = N = 8: (D-2)/(2N+D-2)
        "| 3 | P0, P3, P4, P7 |"})                       // Fig. 5's group of stage 3
    CHECK_THAT(md, Catch::Contains(row));
  std::size_t pictures = 0;
  for (std::size_t at = 0; (at = html.find("<svg", at)) != std::string::npos; ++at) ++pictures;
  CHECK(pictures == 17);  // Fig. 2: 6; 3: 2; 4: 3; 6: 1; 7: 4; 8: 1
  for (const char* outside : {"src=", "href=", "<script"})
    CHECK(html.find(outside) == std::string::npos);
}

TEST_CASE("schedule paper says what it lacks") {
  const std::string command = chimera_binary().string() + " schedule paper ";
  const CommandResult none = run_command(command);
  CHECK(none.exit_code == 2);
  CHECK_THAT(none.err, Catch::Contains("-o is not given"));
  const CommandResult nowhere = run_command(command + "-o /tmp --data /nowhere");
  CHECK(nowhere.exit_code == 1);
  CHECK_THAT(nowhere.err, Catch::Contains("/nowhere/numbers.json"));
}

TEST_CASE("info counts the paper's GPT-2 and the memory of its 32 workers") {
  const CommandResult r =
      run_command(chimera_binary().string() + " info --config " + config_path());
  REQUIRE(r.exit_code == 0);
  CHECK_THAT(r.out, Catch::Contains("parameters     1,389,327,360\n"));  // Table 4
  CHECK_THAT(r.out, Catch::Contains("batch          32 x 632 tokens"));
  // Two stages of two layers, 2 * 39,354,880 floats; the end workers have embedding and head, too.
  CHECK_THAT(r.out, Catch::Contains("  worker 1       0.2932"));
  CHECK_THAT(r.out, Catch::Contains("  worker 31      0.7774"));
  CHECK(run_command(chimera_binary().string() + " info --set parallel.width=2").exit_code == 2);
}

// 32 layers for 64, 32 wide for 1,280, T 8 for 632; all 32 stages as workers of this process.
TEST_CASE("the paper's configuration trains, scaled down, on 32 local workers") {
  const Project project;
  const std::string small =
      config_path() +
      " --set model.n_layer=32 --set model.n_embd=32 --set model.n_head=4 --set model.n_positions=8"
      " --set model.vocab_size=300 --set data.sequence_length=8 --set parallel.stage_layers=auto"
      " --set data.train='[\"../data/train-*.bin\"]' --set "
      "data.validation='[\"../data/val-*.bin\"]'"
      " --set train.steps=1 --set lr_schedule.warmup_steps=0 --set train.eval_every=0 --set "
      "train.log_every=1"
      " --set checkpoint.directory=checkpoints --set log.directory=log";
  const CommandResult checked = project.run("check", "train --check " + small);
  INFO(checked.err);
  REQUIRE(checked.exit_code == 0);
  CHECK_THAT(checked.out,
             Catch::Contains("schedule: chimera, depth 32, width 1, 32 micro-batches"));
  const CommandResult trained = project.run("run", "train " + small);
  INFO(trained.err);
  REQUIRE(trained.exit_code == 0);
  const std::vector<Json> losses = project.metrics("run", "loss");
  REQUIRE(losses.size() == 1);
  // Untrained: near the logarithm of the vocabulary.
  CHECK(losses[0].at("loss").get<double>() == Approx(std::log(300.0)).margin(0.3));
}

}  // namespace
}  // namespace chimera::test
