#pragma once
// Orders of the computations on their circles. An order fixes a period (the largest ratio of
// latency to distance over all cycles of constraints), the times, and the buffers.
#include <optional>

#include "cyclic.h"

namespace chimera::schedule {

// One op of a circle: it runs in turn `turn`, that is at turn * period + its place on the circle.
struct Placed {
  int op = 0;
  int turn = 0;
};
using Circle = std::vector<Placed>;  // by place
std::vector<Circle> circles_of(const CyclicProblem& problem, const CyclicTimes& times);

// The most micro-batches alive at once, from a forward's start to its weight gradient's end.
int peak_buffers(const CyclicProblem& problem, const Circle& circle);
int peak_buffers(const CyclicProblem& problem, const CyclicTimes& times);

// What the orders add to the constraints: each op of a circle before the next, the last before the
// first of the next turn.
CyclicEdge edge_between(const CyclicProblem& problem, const Circle& circle, int place);

// No order at all: the least period that resources and these constraints, each alone, allow.
Index least_period(const CyclicProblem& problem, const std::vector<CyclicEdge>& edges);

// The earliest times at the least period that the orders allow: the largest ratio of latency to
// distance over all cycles. Nothing where no period serves. `about`: starts whose order is nearly
// right; any do, good ones are fast.
std::optional<CyclicTimes> tightened(const CyclicProblem& problem,
                                     const std::vector<Circle>& circles,
                                     const std::vector<Index>& about);

}  // namespace chimera::schedule
