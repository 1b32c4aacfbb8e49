// chimera plan and the measurements it reads, as a user types them.
#include <nlohmann/json.hpp>

#include "chimera/base/format.h"
#include "chimera/setup/config_file.h"
#include "chimera/setup/programs.h"
#include "e2e/project.h"

namespace chimera::test {
namespace {

using Catch::Contains;

std::string in_source(const std::string& path) { return (source_folder() / path).string(); }

CommandResult run_plan(const std::string& arguments) {
  return run_command(chimera_binary().string() + " plan " + arguments);
}

std::string piz_daint() { return "--cluster " + in_source("configs/clusters/piz-daint.json"); }

}  // namespace

TEST_CASE("plan: the paper's model on 512 nodes, with both ways to the time and every refusal") {
  const CommandResult r = run_plan("--model " + in_source("configs/models/gpt2-1.3b.json") + " " +
                                   piz_daint() + " --workers 512 --batch 512 --top 5");
  INFO(r.err);
  REQUIRE(r.exit_code == 0);
  CHECK_THAT(r.out, Contains("P 512, batch 512 x 632 tokens, 1389327360 parameters"));
  CHECK_THAT(r.out, Contains("step ms") && Contains("Eq. 1 ms") && Contains("memory most / least"));
  // The whole model's weights, gradients and moments, 16 bytes per parameter, fit on no node.
  CHECK_THAT(r.out, Contains("too much memory") && Contains("of 14.90 GiB"));
  CHECK_THAT(r.out, Contains("128: the model has 64 layers"));
}

TEST_CASE("plan: measured here, written as a configuration, and that configuration trains") {
  const Project project;
  const std::string config = (project / "config.json").string();
  for (const std::string& measurement :
       {std::string("p2p --most-bytes 65536"), std::string("allreduce --most-bytes 65536"),
        "step --model " + config + " --micro-batch 1 2 --workers 2 --rounds 1"}) {
    const CommandResult r =
        project.run("plan", "bench " + measurement + " --save calibration.json");
    INFO(measurement << r.err);
    REQUIRE(r.exit_code == 0);
  }
  const CommandResult planned = project.run(
      "plan",
      "plan --model ../config.json --calibration calibration.json --workers 1 --batch 4 "
      "-o best.json");
  INFO(planned.out << planned.err);
  REQUIRE(planned.exit_code == 0);
  const Json best = read_json((project / "plan/best.json").string());
  CHECK(best["parallel"]["depth"] == 1);
  const Json& p = best["parallel"];
  CHECK(p["micro_batches"].get<Index>() * p["micro_batch_size"].get<Index>() == 4);
  CHECK(best["train"]["steps"] == 12);  // the rest is the configuration's own
  const CommandResult trained = project.run("plan", "train best.json");
  INFO(trained.err);
  CHECK(trained.exit_code == 0);
}

// One footprint serves both: the planner's numbers are what workers allocate, to the byte.
TEST_CASE("plan: the memory shown is that of the run that would follow") {
  const TemporaryFolder folder;
  const std::string best = (folder / "best.json").string();
  const std::string common = "--model " + in_source("configs/models/bert-48-shaped.json") + " " +
                             piz_daint() + " --workers 8 --batch 32 --top 1 -o " + best;
  for (const char* choice :
       {" --schedule 1f1b --zero 0", " --schedule chimera --zero 1", " --schedule gems",
        " --schedule chimera --recompute full", " --schedule pipedream-2bw --stale",
        " --schedule gpipe --recompute selective", " --schedule chimera --zero 1 --precision bf16",
        " --schedule 1f1b --zero 0 --precision fp16"}) {
    const CommandResult r = run_plan(common + choice);
    INFO(choice << "\n" << r.out << r.err);
    REQUIRE(r.exit_code == 0);
    const Config config = load_config(best, {});
    const auto all = footprints(config, build_programs(config));
    Index most = 0, least = all.front().bytes();
    for (Index rank = 0; rank < config.parallel.request.depth; ++rank) {  // the first replica
      const Index bytes = all[static_cast<std::size_t>(rank)].bytes();
      most = std::max(most, bytes);
      least = std::min(least, bytes);
    }
    CHECK_THAT(r.out, Contains(human_bytes(most, 2) + " / " + human_bytes(least, 2)));
  }
}

TEST_CASE(
    "plan: a precision is the configuration's or the option's, and says what its times are of") {
  const TemporaryFolder folder;
  const std::string given = (folder / "given.json").string(),
                    best = (folder / "best.json").string();
  spit(given, R"({"model": {"preset": "gpt2-124m"}, "data": {"train": ["x"]}, "train": {"steps": 9},
                  "precision": {"compute": "bf16"}})");
  const auto plan = [&](const std::string& cluster, const std::string& more) {
    const CommandResult r =
        run_plan("--model " + given + " --cluster " + in_source("configs/clusters/") + cluster +
                 ".json --workers 4 --batch 16 --top 1 -o " + best + more);
    INFO(r.out << r.err);
    REQUIRE(r.exit_code == 0);
    return r.out;
  };
  CHECK_THAT(plan("dgx-h100", ""), Contains("times estimated for BF16\n"));
  CHECK(load_config(best, {}).precision.compute == "bf16");
  CHECK_THAT(plan("piz-daint", " --precision fp16"),
             Contains("no rate of 16-bit products is known"));
  CHECK(load_config(best, {}).precision.compute == "fp16");
  CHECK_THAT(plan("dgx-h100", " --precision fp32"), Contains("times estimated\n"));
  CHECK(load_config(best, {}).precision.compute == "fp32");
}

TEST_CASE("plan: a second measurement of the same kind replaces the first") {
  const TemporaryFolder folder;
  const std::string file = (folder / "c.json").string();
  for (int i = 0; i < 2; ++i)
    REQUIRE(run_command(chimera_binary().string() + " bench p2p --most-bytes 1024 --save " + file)
                .exit_code == 0);
  const Json calibration = read_json(file);
  CHECK(calibration["p2p"].size() == 1);
  CHECK(calibration["p2p"][0]["points"].size() == 2);  // 256 and 1024 bytes
  CHECK(calibration["allreduce"].empty());
  // Half a calibration says what is missing.
  const CommandResult r =
      run_plan("--model gpt2-124m --calibration " + file + " --workers 1 --batch 1");
  CHECK(r.exit_code == 1);
  CHECK_THAT(r.err, Contains("bench step"));
  std::string text = slurp(file);
  text.insert(text.find("\"alpha\": ") + 9, "-");
  spit(file, text);
  CHECK_THAT(run_plan("--model gpt2-124m --calibration " + file + " --workers 1 --batch 1").err,
             Contains("p2p[0].alpha is -"));
}

// The program's data are found beside it, wherever it is started and whatever lies there.
TEST_CASE("plan: the clusters that come with the program are found from any folder") {
  TemporaryFolder folder;
  const CommandResult r =
      run_command("cd " + folder.path().string() + " && " + chimera_binary().string() +
                  " plan --model gpt2-124m --cluster piz-daint --workers 4 --batch 8");
  INFO(r.err);
  CHECK(r.exit_code == 0);
  CHECK_THAT(r.out, Contains("NVIDIA Tesla P100"));
}

TEST_CASE("plan: what makes no sense is refused with the way out") {
  struct Case {
    std::string arguments;
    int exit_code;
    std::string message;
  };
  const std::string model = "--model gpt2-124m ", size = " --workers 4 --batch 8 ";
  const Case cases[] = {
      {model + size, 2, "give either --cluster, or --calibration"},
      {"--model gpt3 " + piz_daint() + size, 2, "gpt2-124m, gpt2-350m"},
      {model + "--cluster nowhere" + size, 2, "none of dgx-h100, gh200-alps, piz-daint"},
      {model + piz_daint() + " --workers 0 --batch 8", 2, "--workers: Value 0 not in range"},
      {model + piz_daint() + " --workers 4 --batch -1", 2, "--batch: Value -1 not in range"},
      {model + piz_daint() + " --workers 60000 --batch 60000", 2, "piz-daint has 5704 devices"},
      {model + piz_daint() + size + "--memory lots", 2, "--memory lots is no amount of memory"},
      {model + piz_daint() + size + "--memory 1MiB", 1, "no layout can be run"},
      {model + piz_daint() + size + "--sequence 5000", 2, "5000"},
      {model + piz_daint() + size + "--schedule chimaera", 2, "'chimaera' is unknown"},
      {model + piz_daint() + size + "--measure 3", 2, "plans for another"},
  };
  for (const Case& c : cases) {
    const CommandResult r = run_plan(c.arguments);
    INFO(c.arguments << "\n" << r.out << r.err);
    CHECK(r.exit_code == c.exit_code);
    CHECK_THAT(r.err, Contains(c.message));
  }
}

}  // namespace chimera::test
