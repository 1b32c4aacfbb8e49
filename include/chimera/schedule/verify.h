#pragma once
// The proof that a lowered schedule may be run (the list is in src/schedule/README.md).
#include <vector>

#include "chimera/schedule/instr.h"

namespace chimera::schedule {

struct WorkerReport {
  int in_flight = 0;           // most micro-batches between their Forward and their (last) Backward
  int activation_buffers = 0;  // most activation buffers in use: what backward needs
  int boundary_buffers = 0;    // most boundary buffers in use: what travels
  int messages = 0;            // sent per step
  int reductions = 0;
  int versions = 1;  // most weight versions of a stage
};

struct VerifyReport {
  std::vector<WorkerReport> workers;
  Index instructions = 0;
};

// Runs all programs against each other with blocking rendezvous and checks every rule. Throws Error
// naming worker, index, instruction and what is wrong. Safe on any Schedule, however damaged.
VerifyReport verify(const Schedule& schedule);

}  // namespace chimera::schedule
