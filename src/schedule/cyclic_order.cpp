#include "cyclic_order.h"

#include <algorithm>

namespace chimera::schedule {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

}  // namespace

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

int peak_slots(const CyclicProblem& p, const Circle& circle) {
  // At the circle's start the tenants of earlier turns are alive.
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

int peak_slots(const CyclicProblem& p, const CyclicTimes& times) {
  int most = 0;
  for (const Circle& circle : circles_of(p, times)) most = std::max(most, peak_slots(p, circle));
  return most;
}

LongestPaths::LongestPaths(const CyclicProblem& problem)
    : problem_(problem), edges_(problem.edges) {}

void LongestPaths::set(const std::vector<Circle>& circles) {
  edges_.resize(problem_.edges.size());
  neighbours_.clear();
  for (int r = 0; r < static_cast<int>(circles.size()); ++r) {
    const Circle& circle = circles[at(r)];
    for (std::size_t k = 0; k < circle.size(); ++k) {
      const bool last = k + 1 == circle.size();
      const Placed &a = circle[k], &b = circle[last ? 0 : k + 1];
      if (a.op == b.op) continue;
      edges_.push_back(
          {a.op, b.op, problem_.ops[at(a.op)].duration, a.turn - b.turn + (last ? 1 : 0)});
      neighbours_.push_back({r, static_cast<int>(k)});
    }
  }
}

void LongestPaths::restart(Index period) {
  period_ = period;
  start_.assign(problem_.ops.size(), 0);
  parent_.assign(problem_.ops.size(), -1);
}

bool LongestPaths::relax() {
  bool changed = false;
  work_ += static_cast<Index>(edges_.size());
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

// A cycle of parents is one whose latencies exceed its distances times the period.
bool LongestPaths::find_cycle() {
  std::vector<int> seen(start_.size(), -1);
  for (int root = 0; root < static_cast<int>(start_.size()); ++root) {
    int i = root;
    while (seen[at(i)] < 0 && parent_[at(i)] >= 0) {
      seen[at(i)] = root;
      i = edges_[at(parent_[at(i)])].from;
    }
    if (seen[at(i)] != root) continue;
    cycle_.clear();
    ratio_ = {0, 0};
    int j = i;
    do {
      const CyclicEdge& edge = edges_[at(parent_[at(j)])];
      cycle_.push_back(parent_[at(j)]);
      ratio_.latency += edge.latency, ratio_.distance += edge.distance;
      j = edge.from;
    } while (j != i);
    return true;
  }
  return false;
}

std::optional<Index> LongestPaths::least_period(Index from, std::optional<Ratio> give_up) {
  restart(from);
  while (relax()) {
    if (!find_cycle()) continue;
    if (ratio_.distance <= 0 || (give_up && !(ratio_ < *give_up))) return std::nullopt;
    restart(ceil_div(ratio_.latency, ratio_.distance));
  }
  return period_;
}

CyclicTimes LongestPaths::times() const {
  CyclicTimes times{period_, start_};
  const Index least = *std::ranges::min_element(start_);
  for (Index& t : times.start) t -= least;
  return times;
}

std::vector<Neighbours> LongestPaths::critical() const {
  const int fixed = static_cast<int>(problem_.edges.size());
  std::vector<Neighbours> out;
  for (int e : cycle_)
    if (e >= fixed) out.push_back(neighbours_[at(e - fixed)]);
  return out;
}

Index least_period(const CyclicProblem& problem) {
  const std::optional<Index> period = LongestPaths(problem).least_period(problem.work);
  ENSURE(period.has_value(), "the step's own dependencies form a cycle");
  return *period;
}

std::optional<CyclicTimes> tightened(const CyclicProblem& problem, const CyclicTimes& times) {
  LongestPaths paths(problem);
  paths.set(circles_of(problem, times));
  if (!paths.least_period(problem.work)) return std::nullopt;
  return paths.times();
}

}  // namespace chimera::schedule
