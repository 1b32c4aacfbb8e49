#include "cyclic_order.h"

#include <algorithm>

#include "at.h"

namespace chimera::schedule {
namespace {}  // namespace

std::vector<Circle> circles_of(const CyclicProblem& p, const CyclicTimes& times) {
  std::vector<Circle> circles(at(p.resources));
  for (int i = 0; i < static_cast<int>(p.ops.size()); ++i)
    circles[at(p.ops[at(i)].resource)].push_back(
        {i, static_cast<int>(floor_div(times.start[at(i)], times.period))});
  for (Circle& circle : circles)
    std::ranges::sort(circle, {}, [&](const Placed& placed) {
      return std::pair(phase(times.start[at(placed.op)], times.period), placed.op);
    });
  return circles;
}

int peak_buffers(const CyclicProblem& p, const Circle& circle) {
  // At the circle's start the leases of earlier turns are alive.
  int alive = 0, most = 0;
  for (const Placed& placed : circle) {
    if (p.ops[at(placed.op)].part == Part::Forward) alive -= placed.turn;
    if (p.ops[at(placed.op)].part == Part::Weight) alive += placed.turn;
  }
  for (const Placed& placed : circle) {
    if (p.ops[at(placed.op)].part == Part::Forward) most = std::max(most, ++alive);
    if (p.ops[at(placed.op)].part == Part::Weight) --alive;
  }
  return most;
}

int peak_buffers(const CyclicProblem& p, const CyclicTimes& times) {
  int most = 0;
  for (const Circle& circle : circles_of(p, times)) most = std::max(most, peak_buffers(p, circle));
  return most;
}

CyclicEdge edge_between(const CyclicProblem& p, const Circle& circle, int place) {
  const bool last = at(place) + 1 == circle.size();
  const Placed &a = circle[at(place)], &b = circle[last ? 0 : at(place) + 1];
  return {a.op, b.op, p.ops[at(a.op)].duration, a.turn - b.turn + (last ? 1 : 0)};
}

namespace {

// Longest paths through constraints, at the least period that allows them.
class LongestPaths {
 public:
  LongestPaths(std::vector<CyclicEdge> edges, std::size_t size)
      : edges_(std::move(edges)), size_(size) {}

  // Nothing where no period serves.
  std::optional<CyclicTimes> run(Index least_period) {
    restart(least_period);
    while (relax()) {
      const std::optional<CyclicEdge> cycle = find_cycle();
      if (!cycle) continue;
      if (cycle->distance <= 0) return std::nullopt;
      restart(ceil_div<Index>(cycle->latency, cycle->distance));
    }
    const Index least = *std::ranges::min_element(start_);
    for (Index& t : start_) t -= least;
    return CyclicTimes{period_, start_};
  }

 private:
  void restart(Index period) {
    period_ = period;
    start_.assign(size_, 0);
    parent_.assign(size_, -1);
  }

  bool relax() {
    bool changed = false;
    for (std::size_t e = 0; e < edges_.size(); ++e) {
      const CyclicEdge& edge = edges_[e];
      const Index t = start_[at(edge.from)] + edge.latency - edge.distance * period_;
      if (t <= start_[at(edge.to)]) continue;
      start_[at(edge.to)] = t;
      parent_[at(edge.to)] = static_cast<int>(e);
      changed = true;
    }
    return changed;
  }

  // A cycle of parents is one whose latencies exceed its distances times the period: their sums.
  std::optional<CyclicEdge> find_cycle() const {
    std::vector<int> seen(size_, -1);
    for (int root = 0; root < static_cast<int>(size_); ++root) {
      int i = root;
      while (seen[at(i)] < 0 && parent_[at(i)] >= 0) {
        seen[at(i)] = root;
        i = edges_[at(parent_[at(i)])].from;
      }
      if (seen[at(i)] != root) continue;
      CyclicEdge sum{i, i, 0, 0};
      int j = i;
      do {
        const CyclicEdge& edge = edges_[at(parent_[at(j)])];
        sum.latency += edge.latency, sum.distance += edge.distance;
        j = edge.from;
      } while (j != i);
      return sum;
    }
    return std::nullopt;
  }

  std::vector<CyclicEdge> edges_;
  std::size_t size_;
  Index period_ = 0;
  std::vector<Index> start_;
  std::vector<int> parent_;  // the edge that fixed each start
};

}  // namespace

Index least_period(const CyclicProblem& p, const std::vector<CyclicEdge>& edges) {
  const auto times = LongestPaths(edges, p.ops.size()).run(p.work);
  ENSURE(times.has_value(), "the step's own dependencies form a cycle");
  return times->period;
}

std::optional<CyclicTimes> tightened(const CyclicProblem& p, const std::vector<Circle>& circles,
                                     const std::vector<Index>& about) {
  std::vector<CyclicEdge> edges = p.edges;
  for (const Circle& circle : circles)
    for (int k = 0; k < static_cast<int>(circle.size()) && circle.size() > 1; ++k)
      edges.push_back(edge_between(p, circle, k));
  std::ranges::stable_sort(edges, {}, [&](const CyclicEdge& e) { return about[at(e.from)]; });
  return LongestPaths(std::move(edges), p.ops.size()).run(p.work);
}

}  // namespace chimera::schedule
