#include "chimera/schedule/timing.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "chimera/schedule/lower.h"
#include "chimera/schedule/simulate.h"

namespace chimera::schedule {
namespace {

// Shown after the pipeline has filled and before it drains.
constexpr int kSteadySteps = 2;

void count_idle(Timetable& table, int steps) {
  for (const auto& cells : table.workers) {
    int busy = 0;
    for (const Timetable::Cell& cell : cells) busy += cell.length;
    table.idle.push_back(table.step_length - busy / steps);
  }
}

Timetable::Cell cell(int start, int length, Instr in, int step, int micro_batches) {
  in.micro += step * micro_batches;
  return {start, length, in, step};
}

int whole(double units) {
  const double rounded = std::round(units);
  ENSURE(std::abs(units - rounded) < 1e-6, "a time of ", units, " units is no whole number");
  return static_cast<int>(rounded);
}

Costs costs_of(const Schedule& schedule, const Durations& d) {
  Costs costs;
  costs.rendezvous = false;
  costs.forward = {static_cast<double>(d.forward)};
  costs.backward_input = {static_cast<double>((d.backward + 1) / 2)};
  const int least = schedule.has(Op::BackwardWeight) ? 1 : 0;
  costs.backward_weight = {static_cast<double>(std::max(least, d.backward / 2))};
  return costs;
}

}  // namespace

double Timetable::bubble_ratio() const {
  if (step_length == 0) return 0;
  const double total = std::accumulate(idle.begin(), idle.end(), 0.0);
  return total / (static_cast<double>(workers.size()) * step_length);
}

Timetable at_ticks(const ComputePlan& plan) {
  Timetable table;
  int length = 0;
  for (const std::vector<Instr>& list : plan.workers)
    for (const Instr& in : list) length = std::max(length, in.tick + 1);
  // A step that is `length` long is followed by others every period.
  const int lag = plan.period > 0 ? std::max(0, (length - 1) / plan.period) : 0;
  const int steps = plan.period > 0 ? lag + kSteadySteps : 1;
  for (const std::vector<Instr>& list : plan.workers) {
    auto& cells = table.workers.emplace_back();
    for (int step = 0; step < steps; ++step)
      for (const Instr& in : list)
        cells.push_back(cell(in.tick + step * plan.period, 1, in, step, plan.micro_batches));
    std::ranges::stable_sort(cells, {}, &Timetable::Cell::start);
  }
  table.makespan = length + (steps - 1) * plan.period;
  table.step_length = plan.period > 0 ? plan.period : table.makespan;
  table.steady_start = lag * plan.period;
  table.steady_end = (lag + 1) * plan.period;
  count_idle(table, steps);
  return table;
}

Timetable as_soon_as_possible(const Schedule& schedule, const Durations& durations) {
  const Costs costs = costs_of(schedule, durations);
  const bool overlaps = schedule.period > 0;
  const int steps = overlaps ? schedule.lag() + kSteadySteps + 1 : 1;
  const Simulation shown = simulate(schedule, costs, {.steps = steps, .causes = false});
  Timetable table;
  for (const WorkerTimes& worker : shown.workers) {
    auto& cells = table.workers.emplace_back();
    for (const Occupied& o : worker.cells)
      if (o.instr.op != Op::Update)
        cells.push_back(
            cell(whole(o.start), whole(o.end - o.start), o.instr, o.step, schedule.micro_batches));
  }
  table.step_length = table.makespan = whole(shown.makespan);
  if (overlaps) {
    const Simulation steady = simulate(schedule, costs, {.causes = false, .timeline = false});
    table.step_length = steady.step_seconds;
    table.steady_end = whole(shown.step_ends[static_cast<std::size_t>(steps - 1 - schedule.lag())]);
    table.steady_start =
        std::max(0, table.steady_end - static_cast<int>(std::ceil(table.step_length)));
  }
  count_idle(table, steps);
  return table;
}

Timetable as_soon_as_possible(const ComputePlan& plan, const Durations& durations) {
  return as_soon_as_possible(lower(plan, {}), durations);
}

}  // namespace chimera::schedule
