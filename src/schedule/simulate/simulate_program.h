#pragma once
// What the simulator needs of a lowered program, looked up once.
#include <vector>

#include "chimera/schedule/simulate.h"

namespace chimera::schedule {

// One instruction with its costs. Keys are dense: a transfer's is the same at its start and its
// wait.
struct TimedInstr {
  const Instr* instr = nullptr;
  double seconds = 0;  // that it occupies the worker: computations and updates
  int channel = -1;    // messages: index into SimulatedPrograms::channels
  int transfer = -1;   // messages: key within the worker
  int reduction = -1;  // index into SimulatedPrograms::reductions
  // Buffers taken and given back when the instruction begins and when it ends.
  int activations_begin = 0, activations_end = 0, boundary_begin = 0, boundary_end = 0;
};

// All messages of one pipe from one worker to another; they match in the order posted.
struct TimedChannel {
  int source = 0, destination = 0;
  int link = 0;  // shared by the channels between the same two workers
  LinkCost cost;
};

// One per group and kind (sum, scattered sum, gathered weights, norm).
struct TimedReduction {
  std::vector<int> members;  // workers of this replica
  double seconds = 0;
};

struct SimulatedPrograms {
  int lag = 0;
  int links = 0;
  std::vector<std::vector<TimedInstr>> workers;  // as the bodies
  std::vector<int> transfers;                    // keys per worker
  std::vector<double> busy;                      // per worker and step
  std::vector<TimedChannel> channels;
  std::vector<TimedReduction> reductions;
};

// Refers to `schedule`, which must have been verified and must outlive it.
SimulatedPrograms prepare(const Schedule& schedule, const Costs& costs);

}  // namespace chimera::schedule
