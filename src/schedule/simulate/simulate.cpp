#include "chimera/schedule/simulate.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "simulate_machine.h"

namespace chimera::schedule {
namespace {

// Instructions of one simulation; each message and each cell of a timeline takes memory.
constexpr Index kMostExecuted = 50'000'000, kMostDrawn = 5'000'000;
constexpr int kMostSteps = 1 << 14;  // in search of the steady state

bool overlaps(const Schedule& s) { return s.period > 0 || s.lag() > 0; }

Index instructions(const Schedule& s) {
  Index count = 0;
  for (const Program& program : s.programs) count += std::ssize(program.body);
  return count;
}

// Seconds per step where the same number of steps has taken the same time over and over (such
// systems end in a cycle of some number of steps); 0 where that has not come about. The last steps,
// with fewer under way than there might be, do not count.
double cycle_seconds(const std::vector<double>& ends, int lag) {
  const auto end = [&](int step) { return ends[static_cast<std::size_t>(step)]; };
  const int last = static_cast<int>(ends.size()) - 1 - lag;
  for (int cycle = 1; 4 * cycle <= last; ++cycle) {
    const double seconds = end(last) - end(last - cycle);
    bool repeats = true;
    for (int i = 1; i <= std::max(2 * cycle, last / 4) && repeats; ++i)
      repeats = std::abs(end(last - i) - end(last - i - cycle) - seconds) <= 1e-9 * end(last);
    if (repeats) return seconds / cycle;
  }
  return 0;
}

double steady_seconds(const SimulatedRun& run, int lag) {
  const double cycle = cycle_seconds(run.step_ends, lag);
  const int steps = static_cast<int>(run.step_ends.size());
  if (cycle > 0 || steps == 1) return steps == 1 ? run.makespan : cycle;
  const int last = std::max(steps - 1 - lag, steps / 2), first = last - std::max(1, last / 4);
  return (run.step_ends[static_cast<std::size_t>(last)] -
          run.step_ends[static_cast<std::size_t>(first)]) /
         (last - first);
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
  costs.contention = costs.step_sync = 0;
  return costs;
}

class Simulator {
 public:
  Simulator(const Schedule& schedule, const SimulateOptions& options)
      : s_(schedule), options_(options), overlaps_(overlaps(schedule)), lag_(schedule.lag()) {
    if (options.steps < 0)
      FailUsage("a simulation of ", options.steps, " steps; it needs 1 or more");
    if (options.steps > 0) check_size(options.steps);
  }

  SimulatedRun run(const Costs& costs, bool timeline) const {
    const SimulatedPrograms programs = prepare(s_, costs);
    int steps = options_.steps;
    if (steps == 0) steps = overlaps_ ? 4 * (lag_ + 2) : 1;
    while (true) {
      SimulatedRun run = EventMachine(programs, costs, steps, timeline).run();
      const bool enough =
          options_.steps > 0 || !overlaps_ || cycle_seconds(run.step_ends, lag_) > 0;
      if (enough || 2 * steps > kMostSteps || 2 * steps * instructions(s_) > kMostExecuted)
        return run;
      steps *= 2;
    }
  }

  double step_seconds(const SimulatedRun& run) const {
    return overlaps_ ? steady_seconds(run, lag_)
                     : run.makespan / static_cast<double>(run.step_ends.size());
  }
  bool overlapping() const { return overlaps_; }

 private:
  void check_size(int steps) const {
    const Index most = options_.timeline ? kMostDrawn : kMostExecuted;
    if (checked_mul(std::max<Index>(instructions(s_), 1), Index{steps} + lag_) > most)
      FailUsage("a simulation of ", steps, " steps executes more than ", most,
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
        &WorkerTimes::reduction_wait, &WorkerTimes::step_sync_wait})
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
  SimulatedRun run = simulator.run(costs, options.timeline);
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

  const SimulatedRun without_reductions = simulator.run(free_reductions(costs), false);
  const SimulatedRun free = simulator.run(free_messages(free_reductions(costs)), false);
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
