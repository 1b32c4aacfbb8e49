#pragma once
// The search behind chimera_overlapped.
#include "cyclic_order.h"

namespace chimera::schedule {

struct OverlapLimits {
  int slots = 0;                // 0: none
  Index work = Index{1} << 30;  // constraints to look at while improving: about a second
};

// A valid schedule always; the best of a closed form, modulo scheduling and exchanges.
CyclicTimes search_overlap(const CyclicProblem& problem, const OverlapLimits& limits);

}  // namespace chimera::schedule
