#pragma once
// Tabu search on the orders of a repeating step: neighbours on a critical path are exchanged, as in
// job-shop scheduling (Nowicki and Smutnicki, 1996), until nothing forbids the period aimed at.
#include "cyclic_order.h"

namespace chimera::schedule {

struct OrderSearchOptions {
  int buffers = 0;  // most alive on a resource
  Index bound = 0;  // a period that will do
  Index work = 0;   // constraints to look at
  Index salt = 0;   // breaks ties differently
};

// Times of the shortest period met, starting from `circles`, of which `times` are one play; never
// longer than these.
CyclicTimes improved(const CyclicProblem& problem, const CyclicTimes& times,
                     const std::vector<Circle>& circles, const OrderSearchOptions& options);

}  // namespace chimera::schedule
