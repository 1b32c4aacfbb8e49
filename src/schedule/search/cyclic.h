#pragma once
// A step that repeats every P quanta: computation i of step k starts at t(i) + k P. Two of a worker
// must not overlap modulo P, and every other constraint reads
//   t(to) >= t(from) + latency - distance * P        (Rau's modulo constraints).
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

// Where every pipe has equally many micro-batches, all pipes can keep the same times: worker w of f
// pairs then does at the same time the same as w + D/f and as its mirror image D/f - 1 - w, so one
// pipe and D/2f resources stand for all (`mirrored`). Else every pipe and worker counts.
struct CyclicProblem {
  explicit CyclicProblem(SearchProblem search, bool may_mirror = true);

  SearchProblem search;
  bool mirrored = false;
  int pipes = 1, resources = 1;
  std::vector<CyclicOp> ops;  // per pipe, stage, part: ascending index
  std::vector<CyclicEdge> edges;
  Index work = 0;  // of the busiest resource: no period is shorter

  int depth() const { return search.frame.stages(); }
  int count(int pipe) const;  // micro-batches
  int op(int pipe, int stage, Part part, int index) const;
  std::vector<int> first;  // in `ops`, of each (pipe, stage, part)
};

struct CyclicTimes {
  Index period = 0;
  std::vector<Index> start;  // per op
};

// Whether no constraint is broken. For the searches' own use; the tests have a checker of their
// own.
bool holds(const CyclicProblem& problem, const CyclicTimes& times);

// The starts of a plan of one step (ticks are quanta), a period apart. Not for mirrored problems.
CyclicTimes times_of(const CyclicProblem& problem, const ComputePlan& plan, Index period);

// All pipes again; ticks are start times where the quantum is a computation, else their ranks.
ComputePlan unfold(const CyclicProblem& problem, const CyclicTimes& times);

Index floor_div(Index a, Index b);
// a modulo b, 0 … b-1.
Index phase(Index a, Index b);

}  // namespace chimera::schedule
