#pragma once
// Timelines of what was executed, for Perfetto and chrome://tracing.
#include <string>
#include <vector>

#include "chimera/comm/communicator.h"
#include "chimera/schedule/instr.h"

namespace chimera {

// What one worker did when, in seconds of the steady clock. Background: a collective that ran
// beside the instructions.
struct TraceEvent {
  schedule::Instr instr;
  Index step = 0;
  double begin = 0, end = 0;
  bool background = false;
};

// Called by every worker. Rank 0 writes DIRECTORY/trace-step-N.json for each of the steps (counted
// from 0 here, from 1 in names): one process per worker, its instructions and, beside them, the
// collectives in the background; times in microseconds since rank 0's first event, by each node's
// own clock: workers of different nodes may be shifted against each other.
void write_traces(Communicator& comm, const std::string& directory, const std::vector<Index>& steps,
                  const std::vector<TraceEvent>& events);

}  // namespace chimera
