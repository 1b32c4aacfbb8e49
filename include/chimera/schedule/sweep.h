#pragma once
// Every schedule that can be generated up to a size, proved.
#include <string>
#include <vector>

#include "chimera/schedule/generate.h"
#include "chimera/schedule/verify.h"

namespace chimera::schedule {

struct SweepRow {
  std::string schedule;    // with its variant: "chimera doubling"
  int depths = 0;          // different D
  Index schedules = 0;     // (D, N, f, v)
  Index evaluations = 0;   // forward-only schedules on the same placements
  Index instructions = 0;  // of all of these
  Index messages = 0;
  int in_flight = 0;           // most micro-batches in flight on any worker
  int activation_buffers = 0;  // largest pool
};

// What `verify_all` proves in one row: every D <= most_depth, N <= most_micro_batches, f that
// divides D/2 and v <= 4 that the schedule accepts. Tied matrix, W of 1 or 2, gradient_sync,
// zero_stage and recompute, 48 kinds in all, alternate over them. Overlapping steps that are tied,
// recomputed or whose N is no multiple of D are searched for, up to seconds each: only those with
// D <= 4 and N <= 5 are here.
struct SweepVariant {
  std::string name;
  std::vector<Request> requests;
};
std::vector<SweepVariant> sweep_requests(int most_depth, int most_micro_batches);

// One row per variant, in the order of known_schedules(). Uses the calling thread's team. Throws at
// the first schedule that is refused, naming it.
std::vector<SweepRow> verify_all(int most_depth, int most_micro_batches);

}  // namespace chimera::schedule
