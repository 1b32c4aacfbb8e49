#pragma once
// A list scheduler: whenever a worker is free it starts the most urgent computation whose inputs
// are there. One step, with a barrier at its end.
#include "search_problem.h"

namespace chimera::schedule {

enum class Preference {
  Oldest,   // input gradients, forwards, weight gradients; among equals the oldest micro-batch
  Deepest,  // the same, but of forwards the deepest stage, of weight gradients the shallowest
  Steady,   // as 1F1B: stage s forwards first, until D - s micro-batches await their gradients
};

struct ListRule {
  Preference preference = Preference::Oldest;
  bool split = true;  // input and weight gradient apart; else one Backward of their summed time
  int span = 1;       // micro-batches per forward; backwards have one
  int singles = 0;    // the first so many of each pipe go forward one by one all the same
  int buffers = 0;    // micro-batches alive at most, from forward's start to last gradient's end
  int spread = -1;    // from 0 on, the buffers are divided among the stages: see buffer_shares
};

struct ListResult {
  ComputePlan plan;    // ticks are start times in quanta
  Index makespan = 0;  // quanta
  int buffers = 0;     // the most micro-batches alive on any worker
};

// Never fails: where `buffers` stop every worker, it starts again with one more.
ListResult list_schedule(const SearchProblem& problem, const ListRule& rule);

// The best of several rules: fewest buffers over their limits, then shortest, then fewest buffers,
// then the first.
ListResult best_of(const SearchProblem& problem, const std::vector<ListRule>& rules);

// What is tried for the split Chimera.
std::vector<ListRule> split_rules(int buffers);

// Ticks are start times where the quantum is a computation, else their ranks.
ComputePlan plan_of(const SearchProblem& problem, ListResult result);

}  // namespace chimera::schedule
