#pragma once
// Iterative modulo scheduling (Rau, MICRO 1994): computations are placed one by one, most urgent
// first, each at the earliest time that its placed predecessors and its resource allow; where
// nothing is free it evicts what is in the way.
#include <optional>

#include "cyclic.h"

namespace chimera::schedule {

struct ModuloRule {
  int buffers = 0;         // per worker; 0: unlimited
  int spread = 0;          // of buffer_shares
  Index weight_bonus = 0;  // quanta added to a weight gradient's urgency
  Index budget = 2;        // placements per computation before giving up
};

// Buffers are limited by dividing a worker's among its stages: with m buffers, a stage's forward i
// waits for its weight gradient i - m, an ordinary constraint. See buffer_shares.
class ModuloScheduler {
 public:
  ModuloScheduler(const CyclicProblem& problem, const ModuloRule& rule);

  // What constraints and buffers alone allow.
  Index least_period() const { return least_period_; }
  // Nothing where the budget does not suffice for this period.
  std::optional<CyclicTimes> run(Index period) const;

 private:
  const CyclicProblem& problem_;
  ModuloRule rule_;
  std::vector<CyclicEdge> edges_;
  Index least_period_ = 0;
};

}  // namespace chimera::schedule
