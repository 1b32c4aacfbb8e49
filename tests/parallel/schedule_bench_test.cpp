// The simulator against the runtime: the same order of computations, and nearly the same time.
#include <mutex>

#include "chimera/bench/schedules.h"
#include "chimera/schedule/compare.h"
#include "support/support.h"

using namespace chimera;
using bench::BenchCase;
using bench::MeasuredSteps;

namespace {

schedule::Costs sleeping(double forward_ms, double update_ms = 0) {
  schedule::Costs costs;
  costs.forward = costs.backward_input = costs.backward_weight = {forward_ms / 1e3};
  costs.update = {update_ms / 1e3};
  return costs;
}

std::vector<MeasuredSteps> run(const BenchCase& bench, bool computing, Index steps) {
  std::vector<MeasuredSteps> out(static_cast<std::size_t>(bench.config.workers()));
  run_local(narrow<int>(bench.config.workers()), 120, 1, [&](Communicator& comm) {
    out[static_cast<std::size_t>(comm.rank())] = computing
                                                     ? bench::run_computing(bench, comm, steps)
                                                     : bench::run_sleeping(bench, comm, steps);
  });
  return out;
}

double ratio(const BenchCase& bench, const MeasuredSteps& measured) {
  const double simulated =
      schedule::simulate(bench.programs.train, measured.costs, {.causes = false}).step_seconds;
  UNSCOPED_INFO(bench.name << ": measured " << measured.step_seconds << " s, simulated "
                           << simulated << " s per step");
  return measured.step_seconds / simulated;
}

std::vector<schedule::NamedRequest> schedules(int depth, int micro_batches) {
  schedule::Request request;
  request.depth = depth;
  request.micro_batches = micro_batches;
  std::vector<schedule::NamedRequest> out;
  for (schedule::NamedRequest& one : schedule::each_schedule(request)) {
    if (one.request.schedule == "pipedream") one.request.micro_batches = 1;
    if (schedule::refusal(one.request).empty()) out.push_back(std::move(one));
  }
  return out;
}

}  // namespace

// A sleep ends late rather than early; 10 ms are a hundred times what a message costs here, and a
// quarter leaves room for a machine that is busy with other tests.
TEST_CASE("bench: a step of sleeping stages takes at most a quarter longer than simulated",
          "[no-sanitizer]") {
  int run_count = 0, overlapping = 0;
  for (const schedule::NamedRequest& one : schedules(4, 4)) {
    const bool chosen = one.name == "1f1b" || one.name == "chimera" || one.name == "zb-h1" ||
                        one.name == "chimera split overlap" || one.name == "pipedream";
    if (!chosen) continue;
    const BenchCase bench = bench::sleeping_case(one.name, one.request, sleeping(10, 5));
    const double r = ratio(bench, run(bench, false, 5)[0]);
    CHECK(r < 1.25);
    CHECK(r > 0.97);
    ++run_count;
    overlapping += bench.programs.train.period > 0 ? 1 : 0;
  }
  CHECK(run_count == 5);
  CHECK(overlapping == 2);
}

TEST_CASE("bench: every worker computes and updates in the simulated order, under every schedule") {
  for (const schedule::NamedRequest& one : schedules(4, 8)) {
    const BenchCase bench = bench::sleeping_case(one.name, one.request, sleeping(0.2, 0.1));
    const std::vector<MeasuredSteps> measured = run(bench, false, 2);
    const schedule::Simulation simulation =
        schedule::simulate(bench.programs.train, bench.costs,
                           {.steps = narrow<int>(measured[0].steps), .causes = false});
    for (std::size_t w = 0; w < measured.size(); ++w) {
      INFO(one.name << ", worker " << w);
      std::vector<std::string> simulated, executed;
      for (const schedule::Occupied& cell : simulation.workers[w].cells)
        simulated.push_back(to_string(cell.instr));
      for (const schedule::Instr& in : measured[w].executed) executed.push_back(to_string(in));
      CHECK(executed == simulated);
    }
  }
}

// The simulation gets the mean times that the very run took. On a busy machine they vary, and a
// pipeline waits for the slowest each time: hence the 10, which still finds a time in a wrong
// unit. A step cannot be shorter than its parts: 0.9, as means are no medians.
TEST_CASE(
    "bench: a step that computes takes no less than its own times simulate, nor many times that",
    "[no-sanitizer]") {
  schedule::Request request;
  request.depth = 2;
  for (const std::string name : {"1f1b", "chimera"}) {
    request.schedule = name;
    Config config = bench::sleeping_config(request);
    config.model.n_layer = 4, config.model.n_head = 4, config.model.n_embd = 64;
    config.model.n_positions = 64, config.model.vocab_size = 512;
    config.parallel.micro_batch_size = 8;
    const BenchCase bench = bench::computing_case(name, config);
    const MeasuredSteps measured = run(bench, true, 10)[0];
    for (const double seconds : measured.costs.forward) CHECK(seconds > 0);
    for (const double seconds : measured.costs.update) CHECK(seconds > 0);
    const double r = ratio(bench, measured);
    CHECK(r > 0.9);
    CHECK(r < 10);
  }
}
