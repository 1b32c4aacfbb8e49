#include "modulo_scheduler.h"

#include <algorithm>
#include <limits>
#include <set>

#include "at.h"
#include "cyclic_order.h"

namespace chimera::schedule {
namespace {

constexpr Index kNone = std::numeric_limits<Index>::min() / 4;

std::vector<CyclicEdge> slot_edges(const CyclicProblem& p, const ModuloRule& rule) {
  std::vector<CyclicEdge> edges;
  for (int r = 0; r < p.resources && rule.buffers > 0; ++r) {
    std::vector<std::pair<int, int>> lanes;  // pipe, stage
    std::vector<int> stages;
    for (int pipe = 0; pipe < p.pipes; ++pipe)
      for (int s = 0; s < p.depth(); ++s)
        if (p.count(pipe) > 0 && p.ops[at(p.op(pipe, s, Part::Forward, 0))].resource == r)
          lanes.push_back({pipe, s}), stages.push_back(s);
    const std::vector<int> shares = buffer_shares(stages, p.depth(), rule.buffers, rule.spread);
    for (std::size_t k = 0; k < lanes.size(); ++k) {
      const auto [pipe, s] = lanes[k];
      const int n = p.count(pipe), m = shares[k];
      for (int i = 0; i < n && m < n; ++i)  // m = n: the update says it already
        edges.push_back({p.op(pipe, s, Part::Weight, i < m ? i - m + n : i - m),
                         p.op(pipe, s, Part::Forward, i), p.search.quanta.weight[at(s)],
                         i < m ? 1 : 0});
    }
  }
  return edges;
}

class Placement {
 public:
  Placement(const CyclicProblem& p, const std::vector<CyclicEdge>& edges, Index period)
      : p_(p), period_(period), edges_(edges) {
    const std::size_t n = p.ops.size();
    in_.resize(n), out_.resize(n), start_.assign(n, kNone), last_.assign(n, kNone);
    for (const CyclicEdge& e : edges_) out_[at(e.from)].push_back(e), in_[at(e.to)].push_back(e);
    taken_.assign(at(p.resources), std::vector<int>(static_cast<std::size_t>(period), -1));
  }

  std::optional<CyclicTimes> run(const ModuloRule& rule) {
    find_heights();
    for (int i = 0; i < static_cast<int>(p_.ops.size()); ++i) {
      if (p_.ops[at(i)].part == Part::Weight) height_[at(i)] += rule.weight_bonus;
      waiting_.insert({-height_[at(i)], i});
    }
    Index budget = rule.budget * static_cast<Index>(p_.ops.size());
    for (; !waiting_.empty() && budget > 0; --budget) {
      const int i = waiting_.begin()->second;
      waiting_.erase(waiting_.begin());
      place(i);
    }
    if (!waiting_.empty()) return std::nullopt;
    return CyclicTimes{period_, start_};
  }

 private:
  // How long a computation's start is before the end of all that must follow it; finite, since the
  // period is no shorter than the constraints allow.
  void find_heights() {
    height_.assign(p_.ops.size(), 0);
    for (bool changed = true; changed;) {
      changed = false;
      for (auto e = edges_.rbegin(); e != edges_.rend(); ++e) {
        const Index h = height_[at(e->to)] + e->latency - e->distance * period_;
        if (h > height_[at(e->from)]) height_[at(e->from)] = h, changed = true;
      }
    }
  }

  int& cell(int i, Index t) {
    return taken_[at(p_.ops[at(i)].resource)][static_cast<std::size_t>(phase(t, period_))];
  }

  Index first_free(int i, Index from) {
    const Index duration = p_.ops[at(i)].duration;
    for (Index t = from; t < from + period_;) {
      Index k = 0;
      while (k < duration && cell(i, t + k) < 0) ++k;
      if (k == duration) return t;
      t += k + 1;
    }
    return kNone;
  }

  void place(int i) {
    Index earliest = kNone;
    for (const CyclicEdge& e : in_[at(i)])
      if (start_[at(e.from)] != kNone)
        earliest = std::max(earliest, start_[at(e.from)] + e.latency - e.distance * period_);
    if (earliest == kNone) earliest = 0;
    const Index duration = p_.ops[at(i)].duration;
    Index t = first_free(i, earliest);
    if (t == kNone) {
      t = std::max(earliest, last_[at(i)] + 1);  // not where it was evicted from before
      for (Index k = 0; k < duration; ++k)
        if (cell(i, t + k) >= 0) evict(cell(i, t + k));
    }
    start_[at(i)] = last_[at(i)] = t;
    for (Index k = 0; k < duration; ++k) cell(i, t + k) = i;
    for (const CyclicEdge& e : out_[at(i)]) evict_if_broken(e, e.to);
    for (const CyclicEdge& e : in_[at(i)]) evict_if_broken(e, e.from);
  }

  void evict_if_broken(const CyclicEdge& e, int other) {
    if (start_[at(e.from)] == kNone || start_[at(e.to)] == kNone) return;
    if (start_[at(e.to)] < start_[at(e.from)] + e.latency - e.distance * period_) evict(other);
  }

  void evict(int i) {
    for (Index k = 0; k < p_.ops[at(i)].duration; ++k) cell(i, start_[at(i)] + k) = -1;
    start_[at(i)] = kNone;
    waiting_.insert({-height_[at(i)], i});
  }

  const CyclicProblem& p_;
  Index period_;
  std::vector<CyclicEdge> edges_;
  std::vector<std::vector<CyclicEdge>> in_, out_;
  std::vector<Index> height_, start_, last_;  // last_: where it was placed before
  std::vector<std::vector<int>> taken_;       // per resource and quantum of the period
  std::set<std::pair<Index, int>> waiting_;   // most urgent first
};

}  // namespace

ModuloScheduler::ModuloScheduler(const CyclicProblem& problem, const ModuloRule& rule)
    : problem_(problem), rule_(rule), edges_(problem.edges) {
  for (const CyclicEdge& e : slot_edges(problem, rule)) edges_.push_back(e);
  least_period_ = chimera::schedule::least_period(problem, edges_);
}

std::optional<CyclicTimes> ModuloScheduler::run(Index period) const {
  if (period < least_period_) return std::nullopt;
  return Placement(problem_, edges_, period).run(rule_);
}

}  // namespace chimera::schedule
