#pragma once
// Orders of the computations on their circles. An order fixes a period (the largest ratio of
// latency to distance over all cycles of constraints), the times, and the slots.
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
int peak_slots(const CyclicProblem& problem, const Circle& circle);
int peak_slots(const CyclicProblem& problem, const CyclicTimes& times);

// Two neighbours on a circle: circles[resource][place] and the next.
struct Neighbours {
  int resource = 0, place = 0;
};

struct Ratio {
  Index latency = 0, distance = 1;
  bool operator<(const Ratio& o) const { return latency * o.distance < o.latency * distance; }
};

// Longest paths through the constraints and the orders.
class LongestPaths {
 public:
  explicit LongestPaths(const CyclicProblem& problem);

  void set(const std::vector<Circle>& circles);
  // The least period of at least `from` that the constraints allow; nothing where none does, or
  // none below `give_up`.
  std::optional<Index> least_period(Index from, std::optional<Ratio> give_up = std::nullopt);

  // After least_period: the earliest times, the first at 0.
  CyclicTimes times() const;
  // Of the last cycle that forbade a shorter period: its ratio, and its neighbours on circles.
  const Ratio& ratio() const { return ratio_; }
  std::vector<Neighbours> critical() const;
  // Constraints looked at so far: what a search spends instead of seconds.
  Index work() const { return work_; }

 private:
  bool relax();
  bool find_cycle();
  void restart(Index period);

  const CyclicProblem& problem_;
  std::vector<CyclicEdge> edges_;       // the problem's, then the orders'
  std::vector<Neighbours> neighbours_;  // of each edge of the orders
  std::vector<Index> start_;
  std::vector<int> parent_;  // the edge that fixed each start
  std::vector<int> cycle_;   // edges
  Ratio ratio_;
  Index period_ = 0, work_ = 0;
};

// No order at all: the least period that resources and constraints, each alone, allow.
Index least_period(const CyclicProblem& problem);

// The same orders, as tight as they go. Nothing where no period serves.
std::optional<CyclicTimes> tightened(const CyclicProblem& problem, const CyclicTimes& times);

}  // namespace chimera::schedule
