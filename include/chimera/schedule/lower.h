#pragma once
// Lowering: from forwards and backwards to the program that a worker executes (rules and reasons in
// src/schedule/README.md).
#include <string>
#include <vector>

#include "chimera/schedule/generate.h"

namespace chimera::schedule {

struct LowerOptions {
  bool tied = false;
  int width = 1;                       // W
  std::string gradient_sync = "lazy";  // lazy, eager, eager-opt (paper, section 3.2)
  int zero_stage = 0;
  bool recompute = false;
};
LowerOptions lowering_of(const Request& request);

// Adds LoadMicro, messages, reductions, the step synchronisation and updates; sizes the pools.
// Throws Error when the plan is no schedule (two computations in one tick, neighbours on one
// worker, an input used before it is made).
Schedule lower(const ComputePlan& plan, const LowerOptions& options);

// Which contributions are summed per stage, and for the tied matrix as the last group.
std::vector<Group> make_groups(const std::vector<std::vector<int>>& placement, bool tied);

// The inverse: the computations of a lowered program on step 0's clock.
ComputePlan computations(const Schedule& schedule);

}  // namespace chimera::schedule
