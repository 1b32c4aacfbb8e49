#pragma once
// Discrete events over the lowered programs, the very ones that the executor runs: where time goes
// before there is a machine to measure. All times are seconds, all sizes bytes; F, B, W as in
// instr.h. No formula of any schedule is in here.
#include <string>
#include <vector>

#include "chimera/schedule/instr.h"

namespace chimera::schedule {

// alpha and beta: a message of L bytes takes latency + seconds_per_byte * L.
struct LinkCost {
  double latency = 0;
  double seconds_per_byte = 0;
  auto operator<=>(const LinkCost&) const = default;
};

// A list holds one number per stage (vD of them), or one number for all. `update`,
// `gradient_bytes` count groups (stages, then the tied matrix); where the tied matrix has no entry
// of its own it costs nothing, since its stage's numbers may include it.
struct Costs {
  // Of one micro-batch. A whole Backward takes backward_input + backward_weight.
  std::vector<double> forward = {1}, backward_input = {1}, backward_weight = {1};
  std::vector<double> recompute;     // empty: as `forward`
  std::vector<double> update = {0};  // of the whole stage, per step; sharded where it is (ZeRO 1)

  double message_bytes = 0;                  // activation, or input gradient, of one micro-batch
  std::vector<double> gradient_bytes = {0};  // what a reduction sums, and an all-gather collects

  // Worker w of replica r is on node (r * D + w) / workers_per_node; 0: all on one node. A message
  // that crosses nodes in any replica costs inter_node: the replicas wait for each other.
  int workers_per_node = 1;
  LinkCost inter_node, intra_node;
  LinkCost reduction_inter_node, reduction_intra_node;

  // A message moves once both ends have posted it (MPI's rendezvous and the local transport);
  // otherwise once it is sent (buffered by the receiver).
  bool rendezvous = true;
  bool blocking_sends = false;     // SendStart returns when the message has arrived
  bool reductions_inline = false;  // AllReduceStart and its like return when the sum is there
  // Share of a worker's speed that its reduction in the background takes, 0 … below 1.
  double contention = 0;
  double step_sync = 0;  // from the last worker's StepSyncStart to every worker's StepSyncWait
};

// Seconds by Rabenseifner's algorithm over `members` workers: reduce-scatter and all-gather each
// take half, log2(r) * latency + (r - 1) / r * seconds_per_byte * bytes (paper, section 3.4).
double all_reduce_seconds(const LinkCost& link, double bytes, int members);

struct SimulateOptions {
  // Consecutive steps. 0: one where a step ends before the next begins; where steps overlap, as
  // many as it takes until equal steps follow each other.
  int steps = 0;
  bool causes = true;    // idle time by cause, which takes two more simulations
  bool timeline = true;  // keep cells and memory over time
};

// Something that occupies a worker: a computation, an update, or a reduction in its background.
struct Occupied {
  double start = 0, end = 0;
  int step = 0;  // absolute
  Instr instr;
};

struct BuffersInUse {
  double time = 0;
  int activations = 0, boundary = 0;  // from this time on
};

// Per step in steady state, step_seconds = busy + startup + middle + tail + messages + reductions.
struct WorkerTimes {
  double busy = 0;  // computing and updating, undisturbed
  // Idle although messages and reductions cost nothing: before the step's first computation,
  // between computations, after the last one (to the next step). Overlapping steps have no first
  // and last: everything is middle.
  double startup = 0, middle = 0, tail = 0;
  double idle() const { return startup + middle + tail; }

  // Blocked in this instruction class, per step, in the whole simulation: what a trace of the
  // executor shows. Part of it would be idle time anyway.
  double message_wait = 0, reduction_wait = 0, step_sync_wait = 0;

  int activation_buffers = 0,
      boundary_buffers = 0;  // most in use: Schedule.activation_buffers, Schedule.boundary_buffers
  std::vector<Occupied> cells;       // computations and updates, ascending
  std::vector<Occupied> reductions;  // ascending, disjoint
  std::vector<BuffersInUse> memory;  // at every change
};

struct Simulation {
  int steps = 0;
  double makespan = 0;      // of all steps, from the first instruction to the end of the last one
  double step_seconds = 0;  // per step in steady state; makespan / steps where steps do not overlap
  // What step_seconds loses: to messages, when reductions are free; to reductions and the step
  // synchronisation, waited for or slowed by.
  double messages = 0, reductions = 0;
  // Ends of the steps: when every worker has made its last update (evaluation: computation) of it.
  std::vector<double> step_ends;
  std::vector<WorkerTimes> workers;
  // Idle share of the workers' time in a step, all causes together.
  double bubble_ratio() const;
};

// Throws UsageError when a cost is negative, not finite or given for another number of stages, and
// Error when the programs wait for each other for ever (`verify` says why). Replicas are alike: one
// of the schedule's `width` is simulated.
Simulation simulate(const Schedule& schedule, const Costs& costs,
                    const SimulateOptions& options = {});

// Costs as a file: {"format": "chimera-costs", "version": 2, …}, keys as the members of Costs, a
// number or a list where a list may be, bandwidths as "seconds_per_byte". Missing keys keep their
// defaults (backward_input and backward_weight: each as forward), unknown ones are refused; errors
// name `name` and the key.
Costs read_costs(const std::string& text, const std::string& name);
std::string write_costs(const Costs& costs);

// Throws UsageError, naming the key, unless all numbers are finite, not negative, and lists have 1
// or as many entries as the schedule has stages (or groups).
void check_costs(const Costs& costs, const Schedule& schedule);

}  // namespace chimera::schedule
