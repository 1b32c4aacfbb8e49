#pragma once
// What the searched schedules arrange: the computations of one step, with whole numbers for times.
// Every worker searches on its own and all must find the same, so a search knows neither clocks nor
// fractions nor chance.
#include <vector>

#include "chimera/base/types.h"
#include "chimera/schedule/generate.h"

namespace chimera::schedule {

// Durations in quanta: 1 quantum is the common duration of all computations where they are equal,
// else 1/60 of their mean.
struct Quanta {
  std::vector<Index> forward, input, weight;  // per stage, of one micro-batch; at least 1
  Index message = 0;                          // from the end of a computation to its use elsewhere
  Index update = 0;                           // from a stage's last weight gradient to its weights
  Index unit = 1;                             // quanta of a mean computation: 1 or 60
};

struct SearchProblem {
  ComputePlan frame;                     // names and placement; no computations yet
  std::vector<std::vector<int>> micros;  // per pipe, ascending
  Quanta quanta;
  bool tied = false;
  int pipes() const { return static_cast<int>(micros.size()); }
  int worker(int pipe, int stage) const {
    return frame.placement[static_cast<std::size_t>(pipe)][static_cast<std::size_t>(stage)];
  }
};

// Rounds the request's times. A backward that makes its activations again takes a forward longer.
// Throws UsageError for times that are negative, infinite or not one per stage.
Quanta quantise(const StageTimes& times, int stages, bool recompute);

// The same computations, places and micro-batches per pipe as another plan without splits.
SearchProblem problem_like(const ComputePlan& plan, const Request& request);

// Divides a worker's buffers among its stages in proportion to D - stage + spread (a micro-batch of
// stage s is away for 2(D - s) computations at least); each gets one. With buffers of its own no
// stage waits for another's, so a step cannot get stuck.
std::vector<int> buffer_shares(const std::vector<int>& stages, int D, int buffers, int spread);

// Numbers a worker's start times by rank, so that ticks stay small whatever the quantum; with a
// period, start times equal modulo the period stay so. Order is kept everywhere.
ComputePlan with_ranks(ComputePlan plan);

}  // namespace chimera::schedule
