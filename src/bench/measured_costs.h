#pragma once
// The simulator's costs from a trace.
#include "chimera/runtime/trace.h"
#include "chimera/schedule/simulate.h"

namespace chimera::bench {

// Workers, of all replicas, that hold a group's stage.
int members_of(const schedule::Schedule& schedule, int group);

// What the simulator needs to know, from what was traced: means over all workers of the seconds of
// each stage's computations (per micro-batch) and updates, the shorter of its holders' reductions
// (the longer ones wait for another holder first), and the mean of what StepSyncStart computes.
// Called by every worker with its own events.
schedule::Costs measured_costs(const std::vector<TraceEvent>& events,
                               const schedule::Schedule& schedule, Communicator& comm);

}  // namespace chimera::bench
