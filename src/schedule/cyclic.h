#pragma once
// A step that repeats every P quanta: computations on circles. Computation i of step k starts at
// t(i) + k P, so two of a worker must not overlap modulo P, and every constraint between them reads
// t(to) >= t(from) + latency - distance * P (Rau's modulo constraints).
#include <optional>
#include <vector>

#include "search_problem.h"

namespace chimera::schedule {

enum class Part { Forward, Input, Weight };

struct CyclicOp {
  Part part = Part::Forward;
  int pipe = 0, stage = 0, index = 0;  // index: which of the pipe's micro-batches
  int resource = 0;                    // a worker, or a class of workers that do the same
  Index duration = 1;
};

struct CyclicEdge {
  int from = 0, to = 0;
  Index latency = 0;
  int distance = 0;  // steps from `from` to `to`
};

// Where every pipe has equally many micro-batches, all pipes can keep the same times: worker w of
// f pairs then does at the same time the same as w + D/f and as its mirror image D/f - 1 - w, so
// one pipe and D/2f resources stand for all (`mirrored`). Else every pipe and worker counts.
struct CyclicProblem {
  const SearchProblem* source = nullptr;
  bool mirrored = false;
  int resources = 1;
  std::vector<CyclicOp> ops;  // per pipe, stage, part: ascending index
  std::vector<CyclicEdge> edges;
  Index least_period = 0;  // no resource does its work faster
  int op(int pipe, int stage, Part part, int index) const;

  // Layout of `ops`: the first of each (pipe, stage, part).
  std::vector<int> first;
};
CyclicProblem cyclic_problem(const SearchProblem& problem);

struct CyclicTimes {
  Index period = 0;
  std::vector<Index> start;  // per op
};

// The same order on every resource, as tight as it goes: the least period (the largest ratio of
// latency to distance over all cycles) and the earliest times. Nothing where no period serves.
std::optional<CyclicTimes> tightened(const CyclicProblem& problem, const CyclicTimes& times);

// The most micro-batches alive on a resource, from a forward's start to its weight gradient's end.
int peak_slots(const CyclicProblem& problem, const CyclicTimes& times);

// Whether no constraint is broken; for the searches' own use, the tests have a checker of their
// own.
bool holds(const CyclicProblem& problem, const CyclicTimes& times);

// All pipes again, as a plan with ranks for ticks.
ComputePlan unfold(const CyclicProblem& problem, const CyclicTimes& times);

}  // namespace chimera::schedule
