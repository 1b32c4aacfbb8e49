// Stopped anywhere and continued by the same command, a run is bitwise the uninterrupted one.
#include <signal.h>
#include <unistd.h>

#include <cstdio>

#include "chimera/base/rng.h"
#include "chimera/runtime/launch.h"
#include "chimera/runtime/worker.h"
#include "chimera/setup/config_file.h"
#include "chimera/train/checkpointing.h"
#include "chimera/train/data_source.h"
#include "chimera/train/trainer.h"
#include "e2e/project.h"

namespace chimera::test {
namespace {

using chimera::Worker;
using train::RunInputs;

// 24 samples in three shards and a batch of 4: an epoch ends after steps 6 and 12 of 14.
// Evaluations after steps 4, 8, 12, 14; checkpoints after 5, 10, 14.
constexpr Index kSamples = 24, kBatch = 4, kDataSeed = 1;
const std::vector<std::string> kOverrides = {
    "data.train=[\"../shards/a.bin\",\"../shards/b.bin\",\"../shards/c.bin\"]", "train.steps=14",
    "checkpoint.every=5"};

std::string options(const std::vector<std::string>& overrides) {
  std::string out;
  for (const std::string& text : overrides) out += " --set '" + text + "'";
  return out;
}

// n samples of 8 tokens.
std::string shard(int n, int salt) {
  std::vector<int> tokens;
  for (int i = 0; i < n * 8 + 1; ++i) tokens.push_back((i * 7 + salt * 31 + i * i) % 300);
  return shard_bytes(tokens);
}

struct ShardProject : Project {
  ShardProject() {
    std::filesystem::create_directories(*this / "shards");
    spit(*this / "shards/a.bin", shard(8, 1));
    spit(*this / "shards/b.bin", shard(10, 2));
    spit(*this / "shards/c.bin", shard(6, 3));
  }
  // The last step's checkpoint, by file.
  std::map<std::string, std::string> last(const std::string& where) const {
    std::map<std::string, std::string> out;
    for (const auto& [name, content] : checkpoint_files(where))
      if (name.starts_with("step-00000014/")) out[name] = content;
    if (out.empty()) throw std::runtime_error("no checkpoint of step 14 in " + where);
    return out;
  }
};

void enter(const Project& project, const std::string& where) {
  std::filesystem::create_directories(project / where);
  std::filesystem::current_path(project / where);
  if (freopen("/dev/null", "w", stdout) == nullptr) throw std::runtime_error("no /dev/null");
}

// Trains in a child process and raises `signal` right after step `after`, before what may be due
// then: evaluation, checkpoint. Returns its exit code.
int train_until(const Project& project, const std::string& where, Index after, int signal) {
  return in_child([&] {
    enter(project, where);
    const Config config = load_config("../config.json", kOverrides);
    catch_stop_signals();
    RunInputs inputs = train::open_run_inputs(config);
    inputs.after_step = [&](Worker& worker, Index step) {
      if (worker.comm().rank() == 0 && step == after) raise(signal);
    };
    _exit(static_cast<int>(train::train_on(config, {}, inputs)));
  });
}

// The step that reads the last sample of shard a, counted from 1.
Index step_at_shard_end() {
  for (Index g = 0; g < kSamples; ++g)
    if (permute_index(g, kSamples, kDataSeed, 0) == 7) return g / kBatch + 1;
  throw std::logic_error("not a permutation");
}

}  // namespace

TEST_CASE("resume: stopped at any step, the run ends bitwise like the uninterrupted one") {
  const ShardProject project;
  REQUIRE(project.train("whole", options(kOverrides)).exit_code == 0);
  const auto expected = project.last("whole");
  const auto expected_curve = curve(project, "whole");
  REQUIRE(expected_curve.size() == 14 + 4);

  const struct {
    const char* when;
    Index after;  // the signal comes after this step
    int signal, code;
    Index saved;  // the step of the newest checkpoint then
  } stops[] = {
      {"mid-run", 1, SIGTERM, 3, 2},
      {"at an evaluation step, before it", 3, SIGINT, 3, 4},
      {"in an evaluation", 8, SIGUSR1, 3, 8},
      {"as a checkpoint is due; the next step ends an epoch", 5, SIGTERM, 3, 6},
      {"at the begin of an epoch", 6, SIGINT, 3, 7},
      {"at a shard's end", std::max<Index>(1, step_at_shard_end() - 1), SIGUSR1, 3, 0},
      {"at the last step", 13, SIGTERM, 3, 14},
      {"killed before the first checkpoint", 3, SIGKILL, 128 + SIGKILL, 0},
      {"killed between checkpoints", 8, SIGKILL, 128 + SIGKILL, 5},
      {"killed as a checkpoint is due", 10, SIGKILL, 128 + SIGKILL, 5},
  };
  for (const auto& stop : stops) {
    INFO(stop.when);
    const std::string where = "stopped-" + std::to_string(&stop - stops);
    CHECK(train_until(project, where, stop.after, stop.signal) == stop.code);
    if (stop.saved > 0) {
      char name[32];
      std::snprintf(name, sizeof name, "step-%08d", static_cast<int>(stop.saved));
      CHECK(project.newest(where).filename() == name);
    }
    const CommandResult r = project.train(where, options(kOverrides));
    INFO(r.out << r.err);
    REQUIRE(r.exit_code == 0);
    CHECK(project.last(where) == expected);
    // Each step and each evaluation once, in order.
    CHECK(curve(project, where) == expected_curve);
  }
}

TEST_CASE("resume: killed at any point of a save, the run continues bitwise") {
  const ShardProject project;
  std::vector<std::string> overrides = kOverrides;
  overrides.push_back("checkpoint.keep=1");
  REQUIRE(project.train("whole", options(overrides)).exit_code == 0);
  const auto expected = project.last("whole");
  for (const std::string point : {"begin", "shard", "shard-done", "files", "manifest", "rename",
                                  "committed", "retire", "retired"}) {
    INFO(point);
    const std::string where = "killed-at-" + point;
    const int code = in_child([&] {
      enter(project, where);
      const Config config = load_config("../config.json", overrides);
      const RunInputs inputs = train::open_run_inputs(config);
      const Programs programs = build_programs(config);
      run_workers(config, [&](Communicator& comm) {
        Worker worker(config, programs, comm, [] { return false; });
        train::load_or_initialize(worker, config, inputs.identity, "never");
        const auto samples = inputs.training();
        for (Index step = 1; step <= 5; ++step) {
          worker.train_step(*samples, step - 1);
          if (step % 2 == 0) continue;
          const auto kill_there = [&](std::string_view reached) {
            if (step == 5 && reached == point) raise(SIGKILL);
          };
          if (step != 1)
            train::save_checkpoint(worker, config, inputs.identity, step, step * kBatch, "first",
                                   kill_there);
        }
      });
    });
    CHECK(code == 128 + SIGKILL);
    const CommandResult r = project.train(where, options(overrides));
    INFO(r.out << r.err);
    REQUIRE(r.exit_code == 0);
    // Until the rename the checkpoint of step 3 is the newest, from then on that of step 5.
    const bool renamed = point == "rename" || point == "committed" || point.starts_with("retire");
    CHECK_THAT(r.out, Catch::Contains(renamed ? "after step 5" : "after step 3"));
    CHECK(project.last(where) == expected);
    // Nothing half-written stays.
    for (const auto& [name, content] : project.checkpoint_files(where))
      CHECK(name.find(".tmp.") == name.npos);
  }
}

}  // namespace chimera::test
