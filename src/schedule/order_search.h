#pragma once
// Tabu search on the orders of a repeating step: neighbours on a critical cycle are exchanged, as
// in job-shop scheduling (Nowicki and Smutnicki, 1996), here with the cycle that limits the period.
#include "cyclic_order.h"

namespace chimera::schedule {

// Times of the shortest period met, never longer than the given; at most `slots` alive on a
// resource. Stops at `bound`, or when `work` constraints have been looked at.
CyclicTimes improved(const CyclicProblem& problem, const CyclicTimes& times, int slots, Index bound,
                     Index work);

}  // namespace chimera::schedule
