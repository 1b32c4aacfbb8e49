#include "chimera/schedule/timing.h"

#include <algorithm>
#include <numeric>

namespace chimera::schedule {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

int length_of(const Instr& in, const Durations& d) {
  switch (in.op) {
    case Op::Backward: return d.backward * in.count;
    case Op::BackwardInput: return (d.backward + 1) / 2 * in.count;
    case Op::BackwardWeight: return std::max(1, d.backward / 2) * in.count;
    default: return d.forward * in.count;
  }
}

// When the results of each (stage, micro-batch) are there; -1: not yet known.
class Results {
 public:
  explicit Results(const ComputePlan& plan)
      : N_(plan.micro_batches),
        S_(plan.stages()),
        forward_(at(S_) * at(N_), -1),
        backward_(forward_) {}

  // The earliest start by the inputs of `in`; -1 while one is unknown.
  int ready(const Instr& in) const {
    int start = 0;
    for (int m = in.micro; m < in.micro + in.count; ++m) {
      const bool forward = in.op == Op::Forward;
      if (forward && in.stage == 0) continue;
      int input = forward ? forward_[cell(in.stage - 1, m)] : forward_[cell(in.stage, m)];
      if (in.op == Op::BackwardWeight)
        input = backward_[cell(in.stage, m)];
      else if (!forward && in.stage + 1 < S_)
        input = backward_[cell(in.stage + 1, m)];
      if (input < 0) return -1;
      start = std::max(start, input);
    }
    return start;
  }
  void set(const Instr& in, int end) {
    if (in.op == Op::BackwardWeight) return;
    for (int m = in.micro; m < in.micro + in.count; ++m)
      (in.op == Op::Forward ? forward_ : backward_)[cell(in.stage, m)] = end;
  }

 private:
  std::size_t cell(int stage, int m) const { return at(stage) * at(N_) + at(m); }
  int N_, S_;
  std::vector<int> forward_, backward_;
};

void count_idle(Timetable& table) {
  for (const auto& cells : table.workers)
    for (const Timetable::Cell& cell : cells)
      table.makespan = std::max(table.makespan, cell.start + cell.length);
  for (const auto& cells : table.workers) {
    int busy = 0;
    for (const Timetable::Cell& cell : cells) busy += cell.length;
    table.idle.push_back(table.makespan - busy);
  }
}

}  // namespace

double Timetable::bubble_ratio() const {
  if (makespan == 0) return 0;
  const double total = std::accumulate(idle.begin(), idle.end(), 0.0);
  return total / (static_cast<double>(workers.size()) * makespan);
}

Timetable at_ticks(const ComputePlan& plan) {
  Timetable table;
  for (const std::vector<Instr>& list : plan.workers) {
    auto& cells = table.workers.emplace_back();
    for (const Instr& in : list) cells.push_back({in.tick, 1, in});
  }
  count_idle(table);
  return table;
}

Timetable as_soon_as_possible(const ComputePlan& plan, const Durations& durations) {
  Timetable table;
  table.workers.resize(plan.workers.size());
  Results results(plan);
  std::size_t left = 0;
  for (const std::vector<Instr>& list : plan.workers) left += list.size();
  while (left > 0) {
    const std::size_t before = left;
    for (std::size_t w = 0; w < plan.workers.size(); ++w) {
      auto& cells = table.workers[w];
      while (cells.size() < plan.workers[w].size()) {
        const Instr& in = plan.workers[w][cells.size()];
        const int ready = results.ready(in);
        if (ready < 0) break;
        const int free = cells.empty() ? 0 : cells.back().start + cells.back().length;
        const int length = length_of(in, durations);
        cells.push_back({std::max(ready, free), length, in});
        results.set(in, cells.back().start + length);
        --left;
      }
    }
    ENSURE(left < before, "schedule ", plan.name, " cannot be executed: ", left,
           " computations wait for results that no worker comes to");
  }
  count_idle(table);
  return table;
}

}  // namespace chimera::schedule
