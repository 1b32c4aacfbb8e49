// scripts/gpu_check.sh where there is no GPU: what it says when pieces are missing, and its report
// over programs that pass, fail and hang.
#include <nlohmann/json.hpp>

#include "e2e/project.h"

namespace chimera::test {
namespace {

using Catch::Contains;
namespace fs = std::filesystem;

CommandResult run_check(const std::string& arguments, const std::string& settings = "") {
  return run_command("env -u OUT " + settings + " " +
                     (source_folder() / "scripts/gpu_check.sh").string() + " " + arguments);
}

void write_program(const fs::path& path, const std::string& body) {
  fs::create_directories(path.parent_path());
  spit(path, "#!/bin/sh\n" + body + "\n");
  fs::permissions(path, fs::perms::owner_all);
}

// A build folder whose emulator's programs do what they are told.
struct Build {
  TemporaryFolder folder;
  std::string path() const { return folder.path().string(); }
  std::string out() const { return (folder / "out").string(); }
  Build(const std::string& program, const std::string& tests) {
    write_program(folder / "tests/cuda/chimera_emulated", program);
    for (const char* name : {"test_cuda", "test_cuda_training"})
      write_program(folder / "tests/cuda" / name, tests);
  }
  CommandResult check(const std::string& settings = "") const {
    return run_check("--emulated " + path() + " " + out(), settings);
  }
  Json report() const { return read_json((folder / "out/gpu_check.json").string()); }
};

// Writes a table and its numbers as `chimera bench gpu` does.
const std::string kWorks =
    "while [ $# -gt 0 ]; do [ \"$1\" = --json ] && echo '[{\"model\": \"a\"}]' > \"$2\"; shift; "
    "done; "
    "echo '| a \"quoted\" row |'";

}  // namespace

TEST_CASE("gpu_check: what is missing is named with the way out, before anything runs") {
  CHECK_THAT(run_check("--help").out, Contains("gpu_check.sh --bundle"));
  const TemporaryFolder empty;
  const struct {
    std::string arguments, message;
  } cases[] = {{"--nonsense", "unknown option --nonsense; see --help"},
               {"--build", "--build needs a build folder"},
               {"--build /no/such/folder", "--build /no/such/folder: no such folder"},
               {"a b", "one output folder, not 'a' and 'b'"},
               {"--build " + empty.path().string(), "configure with -DCHIMERA_CUDA=ON"},
               {"--emulated " + empty.path().string(), "has no chimera_emulated and test_cuda"}};
  for (const auto& c : cases) {
    const CommandResult r = run_check(c.arguments);
    INFO(c.arguments << "\n" << r.out << r.err);
    CHECK(r.exit_code == 2);
    CHECK_THAT(r.err, Contains(c.message));
  }
}

TEST_CASE("gpu_check: all that passes is a report with tables, as text and as JSON") {
  const Build build(kWorks, "echo All tests passed");
  const CommandResult r = build.check();
  INFO(r.out << r.err);
  REQUIRE(r.exit_code == 0);
  const Json report = build.report();
  CHECK(report["result"] == "passed");
  CHECK(report["ops"][0]["model"] == "a");
  CHECK(report["steps"][0]["model"] == "a");
  for (const Json& part : report["parts"])
    CHECK((part["result"] == "passed" || part["part"] == "compute-sanitizer"));
  const std::string text = slurp(build.folder / "out/gpu_check.md");
  CHECK_THAT(text, Contains("# GPU check: passed") && Contains("## Ops") &&
                       Contains("| a \"quoted\" row |") && Contains("| tests of ops | passed |"));
}

TEST_CASE("gpu_check: what fails or hangs costs neither the rest nor the exit code") {
  const Build build("kind=$3; " + kWorks + "; [ \"$kind\" != ops ] || exit 1",
                    "echo started; sleep 60");
  // The tests of ops have 70 s; 0.02 of that is enough for what does not hang.
  const CommandResult r = build.check("GPU_CHECK_PATIENCE=0.02");
  INFO(r.out << r.err);
  CHECK(r.exit_code == 1);
  const Json report = build.report();
  CHECK(report["result"] == "failed");
  std::map<std::string, std::string> results;
  for (const Json& part : report["parts"]) results[part["part"]] = part["result"];
  CHECK(results["tests of ops"] == "out of time");
  CHECK(results["ops, bf16"] == "failed");
  CHECK(results["training steps"] == "passed");
  CHECK_THAT(slurp(build.folder / "out/gpu_check.log"), Contains("started"));
}

}  // namespace chimera::test
