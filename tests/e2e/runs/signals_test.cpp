#include "e2e/runs/signals.h"

#include "e2e/project.h"

namespace chimera::test {
namespace {

// The 850 steps after the signal take a second or so: it finds the run at work.
constexpr const char* kLong =
    "--set train.steps=1000 --set train.eval_every=500 --set checkpoint.every=125 --set "
    "checkpoint.keep=1";

CommandResult start_and_signal(const Project& project, const std::string& where, const Sent& sent,
                               const std::string& launcher) {
  std::filesystem::create_directories(project / where);
  const std::string rank = "${PMI_RANK:-${OMPI_COMM_WORLD_RANK:-0}}";
  return run_command(
      "cd " + (project / where).string() + "\n" + without_launcher() + launcher +
      " sh -c 'echo $$ >pid." + rank + "; exec " + chimera_binary().string() +
      " train ../config.json " + kLong + "' &\nstarted=$!\n" +
      "until grep -q '\"step\":150,' log/metrics.jsonl 2>/dev/null; do sleep 0.01; done\nkill -" +
      sent.signal + (sent.to == "launcher" ? " $started" : " $(cat pid." + sent.to + ")") +
      "\nwait $started\ncode=$?; echo \"exit code $code\"");
}

void check(const Project& project, const Sent& sent, const std::string& launcher) {
  const std::string where = "run-" + sent.signal + "-" + sent.to;
  const CommandResult stopped = start_and_signal(project, where, sent, launcher);
  INFO(where << "\n" << stopped.out << stopped.err);
  const std::string code = "exit code " + std::to_string(sent.code) + "\n";
  if (sent.code >= 0)
    CHECK_THAT(stopped.out, Catch::EndsWith(code));
  else
    CHECK_THAT(stopped.out, !Catch::EndsWith("exit code 0\n"));
  if (sent.code == 3) CHECK_THAT(stopped.out, Catch::Contains("the same command continues"));

  const CommandResult continued = project.train(where, kLong, launcher);
  INFO(continued.out << continued.err);
  REQUIRE(continued.exit_code == 0);
  CHECK_THAT(continued.out, Catch::Contains("resumed from checkpoints/step-"));
  CHECK(project.checkpoint_files(where) == project.checkpoint_files("whole"));
  CHECK(curve(project, where) == curve(project, "whole"));
}

}  // namespace

void check_signals(const std::vector<Sent>& sent, const std::string& launcher) {
  const Project project;
  REQUIRE(project.train("whole", kLong).exit_code == 0);
  for (const Sent& one : sent) check(project, one, launcher);
}

TEST_CASE("signals: TERM, INT and USR1 end a run with a checkpoint and code 3, to be continued") {
  check_signals({{"TERM", "0", 3}, {"INT", "0", 3}, {"USR1", "0", 3}}, "");
}

TEST_CASE("signals: a killed run continues from its newest checkpoint") {
  check_signals({{"KILL", "0", 128 + 9}}, "");
}

TEST_CASE("signals: a run that was stopped for longer than its deadline goes on") {
  const Project project;
  std::filesystem::create_directories(project / "paused");
  const CommandResult r = run_command(
      "cd " + (project / "paused").string() + "\n" + without_launcher() +
      chimera_binary().string() + " train ../config.json " + kLong +
      " --set parallel.timeout_seconds=1 &\nstarted=$!\n" +
      "until grep -q '\"step\":150,' log/metrics.jsonl 2>/dev/null; do sleep 0.01; done\n" +
      "kill -STOP $started; sleep 3; kill -CONT $started\nwait $started");
  INFO(r.out << r.err);
  CHECK(r.exit_code == 0);
}

}  // namespace chimera::test
