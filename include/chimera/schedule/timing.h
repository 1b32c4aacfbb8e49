#pragma once
// Where computations lie in time when messages cost nothing: the grids of the paper's figures.
#include <vector>

#include "chimera/schedule/generate.h"

namespace chimera::schedule {

// Of one micro-batch, in whole units. A split backward takes half of `backward` each, at least 1;
// recomputation takes a forward.
struct Durations {
  int forward = 1;
  int backward = 2;
};

// Where steps overlap, a table shows several: micro-batches are then numbered on through the steps.
struct Timetable {
  struct Cell {
    int start = 0, length = 1;
    Instr instr;
    int step = 0;
  };
  std::vector<std::vector<Cell>> workers;  // in order of execution
  int makespan = 0;                        // of all that is shown
  double step_length = 0;    // makespan; where steps overlap, from one to the next in steady state
  std::vector<double> idle;  // per worker: step_length - busy
  int steady_start = 0, steady_end = 0;  // one steady period; equal where steps do not overlap
  double bubble_ratio() const;           // idle / (workers * step_length)
};

// Equal slots: every computation at its tick, one unit long (no recomputations).
Timetable at_ticks(const ComputePlan& plan);

// Each worker keeps its order and starts a computation once its inputs are there: `simulate` with
// free messages, reductions and updates. Throws when the order cannot be executed.
Timetable as_soon_as_possible(const Schedule& schedule, const Durations& durations);
Timetable as_soon_as_possible(const ComputePlan& plan, const Durations& durations);

}  // namespace chimera::schedule
