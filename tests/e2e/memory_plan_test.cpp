// chimera plan for a layout that is given: its memory, whether it fits, and what would.
#include "project.h"

namespace chimera::test {
namespace {

using Catch::Contains;

CommandResult plan_memory(const std::string& config, const std::string& arguments) {
  return run_command(chimera_binary().string() + " plan --model " +
                     (source_folder() / "configs" / config).string() + " " + arguments);
}

}  // namespace

TEST_CASE("plan --memory: the paper's 32 stages fit on 32 devices of 16 GB and on 8 of 80 GB") {
  const CommandResult many = plan_memory("gpt2-1.3b-chimera-d32.json", "--memory 16GB");
  INFO(many.out << many.err);
  CHECK(many.exit_code == 0);
  // 4 bytes per parameter of the embedding (50,257 + 1,024 rows of 1,280), the head and its norm,
  // and two blocks of each direction: 208.7 million numbers.
  CHECK_THAT(many.out, Contains("  worker 0       0.7774") && Contains("  worker 31      0.7774"));
  CHECK_THAT(many.out, Contains("32 workers on 32 devices of 14.90 GiB") && Contains("fits, "));
  const CommandResult few = plan_memory("gpt2-1.3b-chimera-d32.json", "--memory 80GB --devices 8");
  INFO(few.out << few.err);
  CHECK(few.exit_code == 0);
  // Ranks take turns among devices: the two end workers, 0 and 31, are on different ones.
  CHECK_THAT(few.out, Contains("on 8 devices of 74.51 GiB: the fullest holds workers 0 8 16 24 "));
  const CommandResult cluster =
      plan_memory("gpt2-1.3b-chimera-d32.json",
                  "--cluster " + (source_folder() / "configs/clusters/piz-daint.json").string());
  CHECK(cluster.exit_code == 0);
}

TEST_CASE("plan --memory: every shape's configuration fits on a GPU of 80 GB") {
  for (const char* size : {"124m", "350m", "774m", "1558m"}) {
    const CommandResult r = plan_memory("gpt2-" + std::string(size) + ".json", "--memory 80GB");
    INFO(size << r.out << r.err);
    CHECK(r.exit_code == 0);
    CHECK_THAT(r.out, Contains("1 worker on 1 device of 74.51 GiB"));
  }
}

TEST_CASE("plan --memory: what does not fit comes with the changes that would, and they do") {
  const CommandResult r = plan_memory("gpt2-1558m.json", "--memory 40GB");
  INFO(r.out << r.err);
  CHECK(r.exit_code == 1);
  // 18 bytes per parameter are 26.1 GiB; buffers of 16 samples are 37.5, of 4 a quarter.
  CHECK_THAT(
      r.err,
      Contains("does not fit; would fit: parallel.micro_batch_size 4 with micro_batches 256 ("));
  CHECK_THAT(plan_memory("gpt2-1558m.json", "--memory 20GB").err,
             Contains("use more stages (parallel.depth)"));
}

TEST_CASE("plan: a search and a table ask for different things, and say so") {
  const auto refused = [](const std::string& arguments, const std::string& message) {
    const CommandResult r = run_command(chimera_binary().string() + " plan " + arguments);
    INFO(arguments << r.err);
    CHECK(r.exit_code == 2);
    CHECK_THAT(r.err, Contains(message));
  };
  const std::string file = "--model " + (source_folder() / "configs/gpt2-124m.json").string();
  refused("--model gpt2-124m --memory 16GB", "--model must be a configuration's file");
  refused(file, "give either --memory or --cluster");
  refused(file + " --memory 16GB --workers 4", "--batch is missing");
  refused(file + " --memory 16GB --workers 4 --batch 8 --devices 2", "--devices is for the memory");
  refused(file + " --memory plenty", "--memory plenty is no amount of memory");
}

}  // namespace chimera::test
