// A disk that is full: training goes on, the last checkpoint that could not be written is an error,
// earlier ones stand, and with room the same command completes the run.
#include <cstdlib>
#include <iostream>

#include "e2e/project.h"

namespace chimera::test {
namespace {

using Catch::Contains;

void check_refusal(const CommandResult& r, const std::string& reason) {
  INFO(r.out << r.err);
  CHECK_THAT(r.out, Contains("exit code 1\n"));
  CHECK_THAT(r.err, Contains(reason) && Contains("training goes on") &&
                        Contains("the last checkpoint could not be written to checkpoints") &&
                        Contains("older checkpoints are untouched"));
  CHECK_THAT(r.out, Contains("step     12/12 | loss"));
}

}  // namespace

// The limit of bytes per file stands for a disk that fills up within a file.
TEST_CASE("disk: writes that fail leave the checkpoint before them, and the run can be completed") {
  const Project project;
  REQUIRE(project.train("whole").exit_code == 0);
  std::filesystem::create_directories(project / "run");
  const std::string train = chimera_binary().string() + " train ../config.json";
  const CommandResult r = run_command("cd " + (project / "run").string() + "\n" +
                                      without_launcher() + "trap '' XFSZ\n(ulimit -f 16; " + train +
                                      "); echo \"exit code $?\"\nls checkpoints");
  check_refusal(r, "File too large");
  for (const auto& [name, content] : project.checkpoint_files("run")) CHECK(name == "");
  REQUIRE(project.train("run").exit_code == 0);
  CHECK(project.checkpoint_files("run") == project.checkpoint_files("whole"));
  CHECK(curve(project, "run") == curve(project, "whole"));
}

TEST_CASE("disk: a full file system is noticed before writing, and what it holds stands") {
  const Project project;
  REQUIRE(project.train("whole", "--set checkpoint.keep=2").exit_code == 0);
  std::filesystem::create_directories(project / "run/checkpoints");
  // A file system of its own, where the system lets us mount one.
  const std::string inside = (project / "inside.sh").string(),
                    train =
                        chimera_binary().string() + " train ../config.json --set checkpoint.keep=2";
  spit(inside, "mount -t tmpfs -o size=1800k none checkpoints || exit 77\n" + train +
                   "; echo \"exit code $?\"\nls checkpoints; " + chimera_binary().string() +
                   " checkpoint verify checkpoints >&2 && echo verified\n"
                   "mount -o remount,size=8m checkpoints\n" +
                   train + " && cp -r checkpoints kept\n");
  const CommandResult r =
      run_command("cd " + (project / "run").string() + "\n" + without_launcher() +
                  "map=; [ $(id -u) = 0 ] || map=--map-root-user\n"
                  "unshare $map -m true || exit 77\nunshare $map -m bash " +
                  inside);
  if (r.exit_code == 77) {
    std::cerr << "not run: this test mounts a tmpfs in a namespace, which is not permitted here\n";
    std::exit(77);  // ctest shows a skip
  }
  check_refusal(r, "bytes free; a checkpoint needs");
  CHECK_THAT(r.out, Contains("step-00000003") && Contains("verified"));
  REQUIRE(r.exit_code == 0);
  std::filesystem::rename(project / "run/kept", project / "run/checkpoints");
  CHECK(project.newest("run").filename() == "step-00000012");
  const auto whole = project.checkpoint_files("whole"), run = project.checkpoint_files("run");
  for (const auto& [name, content] : whole)
    if (name.starts_with("step-00000012/")) CHECK(run.at(name) == content);
  CHECK(curve(project, "run") == curve(project, "whole"));
}

}  // namespace chimera::test
