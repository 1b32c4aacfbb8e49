// Timelines of real runs: what eager reductions do while a worker computes, and the file for
// Perfetto.
#include <chrono>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "chimera/base/file.h"
#include "chimera/base/json.h"
#include "chimera/runtime/trace.h"
#include "chimera/runtime/worker.h"
#include "chimera/train/trainer.h"
#include "support/golden.h"
#include "support/support.h"

using namespace chimera;
using namespace chimera::test;

namespace {

struct Traced {
  std::vector<std::vector<TraceEvent>> workers;
};

// Steps in which every computation takes a few milliseconds of sleep: a reduction that is started
// before one has time to finish within it. Several, since in one the reduction may be done while
// the worker still waits for a message.
Traced trace_steps(const GoldenModel& model, const std::string& sync) {
  Config config = with_layout(model.config("plain"), "chimera", 4, 1, 4, model.batch());
  config.parallel.request.gradient_sync = sync;
  const Programs programs = build_programs(config);
  Traced out;
  out.workers.resize(4);
  const std::vector<Index> steps = {0, 1, 2, 3, 4, 5};
  run_local(4, 60, 1, [&](Communicator& comm) {
    GoldenSamples samples(model);
    Worker worker(config, programs, comm, [] { return false; });
    worker.set_compute_override(
        [](const schedule::Instr&) { std::this_thread::sleep_for(std::chrono::milliseconds(5)); });
    worker.trace(&steps, &out.workers[static_cast<std::size_t>(comm.rank())]);
    worker.train_steps(samples, 0, 6, [](Index, const StepResult&) { return false; });
  });
  return out;
}

// Reductions of which some part lies within a computation of the same worker.
int beside_computation(const std::vector<TraceEvent>& events) {
  return static_cast<int>(std::ranges::count_if(events, [&](const TraceEvent& r) {
    if (!r.background || r.instr.op != schedule::Op::AllReduceWait) return false;
    return std::ranges::any_of(events, [&](const TraceEvent& c) {
      return schedule::is_compute(c.instr.op) && r.begin < c.end && c.begin < r.end;
    });
  }));
}

}  // namespace

// Paper, Fig. 4: at D = 4 the outer workers have the larger of their stages complete before their
// last backward; with eager-opt they alone reduce early, with eager all do.
TEST_CASE("eager reductions move while the worker computes, lazy ones do not") {
  const GoldenModel model("untied");
  REQUIRE(model.layers() >= 4);
  const Traced lazy = trace_steps(model, "lazy"), eager = trace_steps(model, "eager"),
               some = trace_steps(model, "eager-opt");
  for (std::size_t w = 0; w < 4; ++w) {
    INFO("worker " << w);
    CHECK(beside_computation(lazy.workers[w]) == 0);
    CHECK(beside_computation(eager.workers[w]) > 0);
    CHECK((beside_computation(some.workers[w]) > 0) == (w == 0 || w == 3));
  }
}

TEST_CASE("traced steps are written as Chrome traces, one process per worker") {
  const GoldenModel model("untied");
  const TemporaryFolder folder;
  Config config = with_layout(model.config("plain"), "chimera", 2, 1, 4, model.batch());
  config.train.steps = 3;
  config.train.eval_every = 0;
  config.log.directory = folder / "log";
  config.log.trace_steps = {2};
  train::RunInputs inputs;
  inputs.training = [&] { return std::make_unique<GoldenSamples>(model); };
  REQUIRE(train::train_on(config, {}, inputs) == ExitCode::Done);
  const std::string file = folder / "log" / "trace-step-2.json";
  const Json trace = parse_json(read_file(file, Index{1} << 24), file);
  std::set<int> workers;
  int forwards = 0;
  for (const Json& event : trace.at("traceEvents")) {
    workers.insert(event.at("pid").get<int>());
    CHECK(event.at("dur").get<double>() >= 0);
    CHECK(event.at("args").at("step").get<int>() == 2);
    forwards += event.at("name").get<std::string>().find(" F ") != std::string::npos;
  }
  CHECK(workers == std::set<int>{0, 1});
  CHECK(forwards == 2 * 4);
  CHECK(!std::filesystem::exists(folder / "log" / "trace-step-1.json"));
}
