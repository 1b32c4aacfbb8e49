// A rank that fails ends the whole job at once, with its message first. Linked where there is an
// MPI; the sanitizers do not know what happens inside it.
#include "comm/local/outcome.h"

using namespace chimera::test;
using Catch::Matchers::Contains;

namespace {

Outcome run(const std::string& command, const std::string& scenario) {
  return timed([&](Outcome& outcome) {
    const CommandResult result =
        run_command(command + " " CHIMERA_TEST_COMM_MPI " --scenario " + scenario, 50);
    outcome.message = result.err + result.out;
    outcome.exit_code = result.exit_code;
  });
}

Outcome run_as_ranks(const std::string& scenario) { return run(CHIMERA_MPIEXEC, scenario); }

}  // namespace

TEST_CASE("ranks: messages of unequal length name both lengths, workers and the channel",
          "[no-sanitizer]") {
  const std::string begin = "rank 2: the message from worker 1 to worker 2 on channel 5 has ";
  check_outcome(run_as_ranks("longer"), begin + "more than 12 bytes, its receiver expects 12", 1);
  check_outcome(run_as_ranks("shorter"), begin + "8 bytes, its receiver expects 12", 1);
  check_outcome(run_as_ranks("empty"), begin + "0 bytes, its receiver expects 12", 1);
}

TEST_CASE("ranks: an error ends the job with its message and exit code", "[no-sanitizer]") {
  check_outcome(run_as_ranks("error"), "rank 1: disk full: /data", 1);
  check_outcome(run_as_ranks("usage"), "rank 1: a bad key", 2);
  check_outcome(run_as_ranks("foreign"), "rank 1: std::bad_alloc", 1);
}

TEST_CASE("ranks: a wait beyond the deadline names both workers and what was waited for",
          "[no-sanitizer]") {
  check_outcome(run_as_ranks("deadline"),
                "rank 0: waited 0.5 s for worker 3 in the activation of micro-batch 7", 1);
}

TEST_CASE("ranks: a message left behind is an error", "[no-sanitizer]") {
  check_outcome(run_as_ranks("forgotten"),
                "rank 3: it ended with 1 messages that it never waited for", 1);
}

TEST_CASE("ranks: a failure in a job or beside one ends all, with its message", "[no-sanitizer]") {
  check_outcome(run_as_ranks("job-error"), "rank 1: disk full: /data", 1);
  check_outcome(run_as_ranks("error-beside-jobs"), "rank 1: disk full: /data", 1);
  check_outcome(run_as_ranks("job-lengths"), "its receiver expects ", 1);
}

TEST_CASE("ranks: a job's wait beyond the deadline names it", "[no-sanitizer]") {
  check_outcome(run_as_ranks("job-deadline"),
                "rank 0: waited 0.5 s for worker 1 in the gradients of stage 2", 1);
}

TEST_CASE("ranks: jobs that are never waited for are an error", "[no-sanitizer]") {
  check_outcome(run_as_ranks("job-forgotten"),
                "rank 2: it ended with background jobs that it never waited for", 1);
}

TEST_CASE("ranks: a killed rank ends the job", "[no-sanitizer]") {
  const Outcome outcome = run_as_ranks("killed");
  INFO(outcome.message);
  CHECK(outcome.exit_code != 0);
  CHECK(outcome.seconds < kSoon);
}

TEST_CASE("ranks: a stopped rank ends the job at the deadline of whoever waits for it",
          "[no-sanitizer]") {
  check_outcome(run_as_ranks("stopped"),
                "rank 3: waited 2 s for worker 2 in the gradient of micro-batch 5", 1);
}

TEST_CASE("ranks: N processes that do not know of each other are refused", "[no-sanitizer]") {
  check_outcome(run("env SLURM_STEP_NUM_TASKS=4", "fine"),
                "the launcher started 4 processes but MPI sees 1", 2);
  check_outcome(run("env SLURM_STEP_NUM_TASKS=4", "fine"), "srun --mpi=pmi2", 2);
}

TEST_CASE("ranks: a job without a failure ends with 0, also alone", "[no-sanitizer]") {
  CHECK(run_as_ranks("fine").exit_code == 0);
  CHECK(run("env", "fine").exit_code == 0);
}
