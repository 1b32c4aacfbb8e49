#pragma once
// The search behind chimera_overlapped.
#include "cyclic_order.h"

namespace chimera::schedule {

// What a search may spend on improving, in constraints looked at: about a second. Counted and not
// timed, so that all workers stop at the same point.
inline constexpr Index kSearchWork = Index{1} << 29;

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
