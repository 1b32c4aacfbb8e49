#pragma once
// Every schedule that can be generated up to a size, proved.
#include <string>
#include <vector>

#include "chimera/schedule/verify.h"

namespace chimera::schedule {

struct SweepRow {
  std::string schedule;
  int depths = 0;          // different D, from 1 on as far as the schedule allows
  Index schedules = 0;     // (D, N, f); tied matrix and W > 1 alternate with N
  Index evaluations = 0;   // forward-only schedules on the same placements
  Index instructions = 0;  // of all of these
  Index messages = 0;
  int in_flight = 0;  // most micro-batches in flight on any worker
  int slots = 0;      // largest pool
};

// One row per known schedule: every valid D <= most_depth, N <= most_micro_batches and f.
// Uses the calling thread's team. Throws at the first schedule that is refused, naming it.
std::vector<SweepRow> verify_all(int most_depth, int most_micro_batches);

}  // namespace chimera::schedule
