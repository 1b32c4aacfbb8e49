// What `chimera info` says of GPUs, and the benchmarks of a GPU as a user types them, on machines
// that the emulator can be.
#include <nlohmann/json.hpp>

#include "chimera/base/json.h"
#include "support/support.h"

using namespace chimera;
using namespace chimera::test;
using Catch::Contains;

namespace {

CommandResult run_emulated(const std::string& arguments, const std::string& machine = "") {
  return run_command("env " + machine + " " CHIMERA_EMULATED_PROGRAM " " + arguments);
}

}  // namespace

TEST_CASE("gpu info: devices, libraries and who reaches whom") {
  const CommandResult r = run_emulated("info", "CHIMERA_EMULATOR_DEVICES=3");
  INFO(r.out << r.err);
  REQUIRE(r.exit_code == 0);
  for (const char* line :
       {"cuda           driver 13.0\n", "               cuBLASLt ", "               cuDNN ",
        "               NCCL 2.", "gpu 0          CUDA emulator, capability 9.0, ",
        "gpu 2          CUDA emulator", "peer access      0  1  2\n", "  gpu 1          x  -  x\n"})
    CHECK_THAT(r.out, Contains(line));
  CHECK_THAT(run_emulated("info").out, !Contains("peer access"));
}

TEST_CASE("gpu info: what a machine lacks is one line, and no error") {
  const struct {
    std::string machine, line;
  } cases[] = {
      {"CHIMERA_EMULATOR_DRIVER=0", "gpu            none: no NVIDIA driver is loaded; "},
      {"CHIMERA_EMULATOR_DRIVER=12040", "gpu            none: the NVIDIA driver knows CUDA 12.4"},
      {"CHIMERA_EMULATOR_DEVICES=0", "gpu            none: there is no GPU"},
      {"CHIMERA_EMULATOR_CODE=100", "; this program has no code for compute capability 9.0; "}};
  for (const auto& c : cases) {
    const CommandResult r = run_emulated("info", c.machine);
    INFO(c.machine << "\n" << r.out << r.err);
    CHECK(r.exit_code == 0);
    CHECK_THAT(r.out, Contains(c.line));
  }
}

TEST_CASE("gpu bench: the commands print tables and write numbers") {
  const TemporaryFolder folder;
  const std::string ops = (folder / "ops.json").string(), steps = (folder / "steps.json").string();
  const CommandResult o =
      run_emulated("bench gpu ops tiny --rounds 1 --type bf16,fp32 --json " + ops);
  INFO(o.out << o.err);
  REQUIRE(o.exit_code == 0);
  const Json tables = read_json(ops);
  REQUIRE(tables.size() == 2);
  CHECK(tables[0]["type"] == "BF16");
  CHECK(tables[0]["rows"].size() == 36);  // two more than fp32's: conversions
  CHECK(tables[1]["rows"].size() == 34);
  CHECK_THAT(o.out, Contains("| adamw | 24 tensors of two blocks |") && Contains("\nlimits: "));

  // One GPU, then both: the same model, twice the sequences.
  const CommandResult s =
      run_emulated("bench gpu step tiny --steps 1 --micro-batch 1 --json " + steps,
                   "CHIMERA_EMULATOR_DEVICES=2");
  INFO(s.out << s.err);
  REQUIRE(s.exit_code == 0);
  const Json rows = read_json(steps);
  REQUIRE(rows.size() == 2);
  CHECK(rows[0]["gpus"] == 1);
  CHECK(rows[1]["gpus"] == 2);
  for (const Json& row : rows) {
    // 4 micro-batches of one sequence of 32 tokens on each GPU.
    const double tokens = 4 * 32 * row["gpus"].get<double>();
    CHECK(row["tokens_per_second"].get<double>() * row["mean_seconds"].get<double>() ==
          Approx(tokens));
    CHECK_FALSE(row.contains("mfu_full"));  // of a card that no data sheet is known of
  }
  const CommandResult none = run_emulated("bench gpu step tiny", "CHIMERA_EMULATOR_DEVICES=0");
  CHECK(none.exit_code == 1);
  CHECK_THAT(none.err, Contains("there is no GPU"));
}
