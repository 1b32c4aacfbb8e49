#pragma once
// One function per schedule, and what they share. `generate` has checked depth and micro_batches.
#include "chimera/schedule/generate.h"

namespace chimera::schedule {

ComputePlan gpipe(int D, int N);
ComputePlan one_f_one_b(int D, int N);
ComputePlan chimera_direct(int D, int N, int f);

// An empty plan with its workers; `one_way` places stage s on worker s.
ComputePlan empty_plan(const char* name, int D, int N);
std::vector<int> one_way(int D);

// Adds one computation on the worker that hosts the stage.
void add(ComputePlan& plan, int tick, Op op, int pipe, int stage, int micro, int count = 1);
// Sorts each worker's list by tick.
ComputePlan sorted(ComputePlan plan);

}  // namespace chimera::schedule
