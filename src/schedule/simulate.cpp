#include "chimera/schedule/simulate.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "simulate_machine.h"

namespace chimera::schedule {
namespace {

constexpr Index kMostExecuted = 200'000'000;  // instructions of one simulation
constexpr int kMostSteps = 1 << 14;           // in search of the steady state

bool overlaps(const Schedule& s) { return s.period > 0 || s.lag() > 0; }

Index instructions(const Schedule& s) {
  Index count = 0;
  for (const Program& program : s.programs) count += std::ssize(program.body);
  return count;
}

// Steps per second between two steps' ends, as seconds per step.
double slope(const std::vector<double>& ends, int from, int to) {
  return (ends[static_cast<std::size_t>(to)] - ends[static_cast<std::size_t>(from)]) / (to - from);
}

// The last quarter of the steps that are followed by as many as ever are under way.
double steady_seconds(const Run& run, int lag) {
  const int steps = static_cast<int>(run.step_ends.size());
  const int last = std::max(steps - 1 - lag, steps / 2);
  const int first = std::min(last - 1, last - std::max(1, last / 4));
  return steps == 1 ? run.makespan : slope(run.step_ends, std::max(first, 0), std::max(last, 1));
}

bool is_steady(const Run& run, int lag) {
  const int last = static_cast<int>(run.step_ends.size()) - 1 - lag, quarter = last / 4;
  if (quarter < 1) return false;
  const double late = slope(run.step_ends, last - quarter, last);
  const double early = slope(run.step_ends, last - 2 * quarter, last - quarter);
  return std::abs(late - early) <= 1e-9 * std::max(late, early);
}

// Messages that take no time and wait for nobody.
Costs free_messages(Costs costs) {
  costs.inter_node = costs.intra_node = {};
  costs.rendezvous = costs.blocking_sends = false;
  return costs;
}
Costs free_reductions(Costs costs) {
  costs.reduction_inter_node = costs.reduction_intra_node = {};
  costs.reductions_inline = false;
  costs.contention = costs.verdict = 0;
  return costs;
}

class Simulator {
 public:
  Simulator(const Schedule& schedule, const SimulateOptions& options)
      : s_(schedule), options_(options), overlaps_(overlaps(schedule)), lag_(schedule.lag()) {
    if (options.steps < 0)
      FailUsage("a simulation of ", options.steps, " steps; it needs 1 or more");
    check_size(std::max(options.steps, 1));
  }

  Run run(const Costs& costs, bool timeline) const {
    const SimulatedPrograms programs = prepare(s_, costs);
    int steps = options_.steps;
    if (steps == 0) steps = overlaps_ ? 4 * (lag_ + 2) : 1;
    while (true) {
      Run run = Machine(programs, costs, steps, timeline).run();
      const bool enough = options_.steps > 0 || !overlaps_ || is_steady(run, lag_);
      if (enough || 2 * steps > kMostSteps || 2 * steps * instructions(s_) > kMostExecuted)
        return run;
      steps *= 2;
    }
  }

  double step_seconds(const Run& run) const {
    return overlaps_ ? steady_seconds(run, lag_)
                     : run.makespan / static_cast<double>(run.step_ends.size());
  }
  bool overlapping() const { return overlaps_; }

 private:
  void check_size(int steps) const {
    if (checked_mul(instructions(s_), steps + lag_) > kMostExecuted)
      FailUsage("a simulation of ", steps, " steps executes more than ", kMostExecuted,
                " instructions; simulate fewer steps");
  }

  const Schedule& s_;
  const SimulateOptions& options_;
  const bool overlaps_;
  const int lag_;
};

void average(WorkerTimes& times, double steps) {
  for (double WorkerTimes::*part :
       {&WorkerTimes::startup, &WorkerTimes::middle, &WorkerTimes::tail, &WorkerTimes::message_wait,
        &WorkerTimes::reduction_wait, &WorkerTimes::verdict_wait})
    times.*part /= steps;
}

}  // namespace

double Simulation::bubble_ratio() const {
  if (step_seconds <= 0 || workers.empty()) return 0;
  const double busy =
      std::accumulate(workers.begin(), workers.end(), 0.0,
                      [](double sum, const WorkerTimes& w) { return sum + w.busy; });
  return 1 - busy / (static_cast<double>(workers.size()) * step_seconds);
}

Simulation simulate(const Schedule& schedule, const Costs& costs, const SimulateOptions& options) {
  check_costs(costs, schedule);
  const Simulator simulator(schedule, options);
  Run run = simulator.run(costs, options.timeline);
  Simulation out;
  out.steps = static_cast<int>(run.step_ends.size());
  out.makespan = run.makespan;
  out.step_seconds = simulator.step_seconds(run);
  out.step_ends = std::move(run.step_ends);
  out.workers = std::move(run.workers);
  const std::vector<double> busy = prepare(schedule, costs).busy;
  for (std::size_t w = 0; w < out.workers.size(); ++w) {
    out.workers[w].busy = busy[w];
    average(out.workers[w], out.steps);
  }
  if (!options.causes) return out;

  const Run without_reductions = simulator.run(free_reductions(costs), false);
  const Run free = simulator.run(free_messages(free_reductions(costs)), false);
  const double bound = simulator.step_seconds(free);
  const double with_messages = simulator.step_seconds(without_reductions);
  out.messages = with_messages - bound;
  out.reductions = out.step_seconds - with_messages;
  const auto steps = static_cast<double>(free.step_ends.size());
  for (std::size_t w = 0; w < out.workers.size(); ++w) {
    WorkerTimes& times = out.workers[w];
    times.startup = simulator.overlapping() ? 0 : free.workers[w].startup / steps;
    times.tail = simulator.overlapping() ? 0 : free.workers[w].tail / steps;
    times.middle = simulator.overlapping() ? bound - times.busy : free.workers[w].middle / steps;
  }
  return out;
}

}  // namespace chimera::schedule
