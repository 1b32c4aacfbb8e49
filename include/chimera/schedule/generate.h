#pragma once
// Generators: each yields, per worker, the forwards and backwards in order. A schedule is one of
// them; lowering, verifying, timing, drawing and running are the same for all.
#include <span>
#include <string>
#include <vector>

#include "chimera/schedule/instr.h"

namespace chimera::schedule {

// What is asked for. Numbers are the user's: `generate` refuses what the schedule cannot do.
struct Request {
  std::string schedule = "chimera";
  int depth = 4;           // D
  int micro_batches = 4;   // N
  int pipeline_pairs = 1;  // f, for chimera
  int width = 1;           // W
  bool tied = false;       // the embedding matrix is also the head's
};

// Forward and Backward instructions with tick, pipe, stage, micro and count; nothing else is set.
// A worker computes one thing per tick, and a tick's results are there for the next tick.
struct ComputePlan {
  std::string name;
  int depth = 1;
  int micro_batches = 1;
  int pipeline_pairs = 0;
  int virtual_stages = 1;
  bool forward_only = false;
  std::vector<std::vector<int>> placement;  // placement[pipe][stage] = worker
  std::vector<std::vector<Instr>> workers;  // ascending tick
  int stages() const { return virtual_stages * depth; }
};

struct ScheduleInfo {
  const char* name;
  const char* rule;       // one line, as in the paper
  const char* reference;  // where it comes from
};
std::span<const ScheduleInfo> known_schedules();
std::string schedule_names();  // "gpipe, 1f1b, chimera"

// Throws UsageError with the reason and the nearest valid choice. Per (pipe, stage) the backwards
// come in ascending micro order: gradients are added in that order, so sums do not depend on the
// schedule.
ComputePlan generate(const Request& request);

// Forwards alone, micro m on pipe m mod pipes; no stage waits between two of its neighbours.
ComputePlan generate_evaluation(const std::vector<std::vector<int>>& placement, int depth,
                                int micro_batches);

}  // namespace chimera::schedule
