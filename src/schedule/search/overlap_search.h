#pragma once
// The search behind chimera_overlapped.
#include "cyclic_order.h"
#include "searched.h"

namespace chimera::schedule {

struct OverlapLimits {
  int buffers = 0;  // 0: none
  Index work = kSearchWork;
};

// A valid schedule always; the best of a closed form, of `seeds`, and of modulo scheduling, after
// exchanges.
CyclicTimes search_overlap(const CyclicProblem& problem, const OverlapLimits& limits,
                           const std::vector<CyclicTimes>& seeds = {});

// The same, and never longer than a step with a barrier and the update behind it.
ComputePlan overlapped_plan(const SearchProblem& problem, const OverlapLimits& limits);

}  // namespace chimera::schedule
