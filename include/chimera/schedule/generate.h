#pragma once
// Generators: each yields, per worker, the forwards and backwards in order. A schedule is one of
// them; lowering, verifying, timing, drawing and running are the same for all.
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "chimera/schedule/instr.h"

namespace chimera::schedule {

// How long computations take, for the schedules that are searched; only ratios count. Empty: every
// stage's forward, input gradient and weight gradient take 1, messages and updates nothing.
struct StageTimes {
  std::vector<double> forward, input, weight;  // per stage, of one micro-batch
  double message = 0;                          // from the end of a computation to its use elsewhere
  double update = 0;  // from a stage's last weight gradient to its updated weights (reduction too)
  auto operator<=>(const StageTimes&) const = default;
};

struct Request;
struct ComputePlan;

// What may be asked about a schedule. Nothing but the schedule's own file compares names. Keys that
// a schedule does not take are refused, with the ones that do as a hint.
struct Traits {
  bool stale = false;              // computes on weights that are updates old
  bool bidirectional = false;      // pipes in both directions: a stage has two holders or more
  bool split = false;              // the backward in two halves always, ordered by a search
  bool serial = false;             // one schedule: what runs where nothing is asked for
  bool featured = false;           // one schedule: what `chimera schedule` shows unless asked
  int micro_batches_per_step = 0;  // 0: any number
  bool takes_pipeline_pairs = false;
  bool takes_scaling = false;
  bool takes_split_backward = false;
  bool takes_overlap_steps = false;  // with split_backward
  bool takes_virtual_stages = false;
};

// The table row of a schedule, in the schedule's own file.
struct ScheduleInfo {
  const char* name;
  const char* rule;       // one line, as in the paper
  const char* reference;  // where it comes from
  int place = 1000;       // in lists, ascending; then by name
  Traits traits;
  // Throws UsageError for what it cannot do beyond what the traits say; may be null.
  void (*check)(const Request&) = nullptr;
  ComputePlan (*make)(const Request&) = nullptr;  // of a request that was checked
};
// One row per file of src/schedule/schedules.
std::span<const ScheduleInfo> known_schedules();
std::string schedule_names();  // all of them, joined by ", "
// Those with a trait, joined by " or ".
std::string schedules_with(const std::function<bool(const Traits&)>& trait);
// Of an unknown name: no traits.
Traits traits_of(const std::string& schedule);
std::string featured_schedule();

// What is asked for. Numbers are the user's: `generate` refuses what the schedule cannot do.
struct Request {
  std::string schedule = featured_schedule();
  int depth = 4;                       // D
  int micro_batches = 4;               // N, counting the backward's unit
  int pipeline_pairs = 1;              // f
  int width = 1;                       // W
  bool tied = false;                   // the embedding matrix is also the head's
  std::string scaling = "direct";      // direct, doubling, halving: how N > D is run
  bool split_backward = false;         // the backward in two halves
  bool overlap_steps = false;          // with split_backward: no barrier between steps
  int virtual_stages = 1;              // v
  std::string gradient_sync = "lazy";  // lazy, eager, eager-opt
  int zero_stage = 0;                  // 1: gradients scattered, updated shards gathered
  bool recompute = false;              // activations are made again before every backward
  StageTimes times;
};

// Forward and Backward instructions with tick, pipe, stage, micro, count and version; nothing else
// is set. A worker computes one thing per tick; a computation uses results of smaller ticks alone.
struct ComputePlan {
  std::string name;
  int depth = 1;
  int micro_batches = 1;
  int pipeline_pairs = 0;
  int virtual_stages = 1;
  bool forward_only = false;
  // Ticks from a step to the next when steps overlap: step k executes the same computations k *
  // period ticks later, and no two computations of a worker have the same tick modulo the period.
  // 0: a step ends before the next begins.
  int period = 0;
  std::vector<std::vector<int>> placement;  // placement[pipe][stage] = worker
  std::vector<std::vector<Instr>> workers;  // ascending tick
  int stages() const { return virtual_stages * depth; }
};

// D = N = 1, of the serial schedule.
Request serial_request();
// N, or what the schedule's step is: without a flush, N micro-batches may be N steps.
int micro_batches_of_step(const Request& request);
// Whether backwards are two halves, in an order that is searched for.
bool splits_backward(const Request& request);

// Throws UsageError with the reason and the nearest valid choice. Per (pipe, stage) the backwards
// come in ascending micro order: gradients are added in that order, so sums do not depend on the
// schedule.
ComputePlan generate(const Request& request);
// Why `generate` refuses a request; empty when it does not.
struct Refusal {
  std::string key;   // the member that it is about, with which the text begins; empty: several
  std::string text;  // "depth is 3; chimera needs …"
  bool empty() const { return text.empty(); }
};
Refusal refusal(const Request& request);

// Forwards alone, micro m on pipe m mod pipes; no stage waits between two of its neighbours.
ComputePlan generate_evaluation(const std::vector<std::vector<int>>& placement, int depth,
                                int micro_batches);

}  // namespace chimera::schedule
