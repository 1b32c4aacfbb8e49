#pragma once
// Where computations lie in time when messages cost nothing: the grids of the paper's figures.
#include <vector>

#include "chimera/schedule/generate.h"

namespace chimera::schedule {

// Of one micro-batch, in whole units. A split backward takes half of `backward` each, at least 1.
struct Durations {
  int forward = 1;
  int backward = 2;
};

struct Timetable {
  struct Cell {
    int start = 0, length = 1;
    Instr instr;
  };
  std::vector<std::vector<Cell>> workers;  // in order of execution
  int makespan = 0;
  std::vector<int> idle;        // per worker: makespan - busy
  double bubble_ratio() const;  // idle / (workers * makespan)
};

// Equal slots: every computation at its tick, one unit long.
Timetable at_ticks(const ComputePlan& plan);

// Each worker keeps its order and starts a computation once its inputs are there. Throws when the
// order cannot be executed.
Timetable as_soon_as_possible(const ComputePlan& plan, const Durations& durations);

}  // namespace chimera::schedule
