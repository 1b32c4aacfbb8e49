#include "order_search.h"

#include <algorithm>
#include <map>

#include "at.h"

namespace chimera::schedule {
namespace {

// Fixed pseudo-random numbers (splitmix64's finaliser): ties are broken alike on every worker.
std::uint64_t scramble(Index value) {
  std::uint64_t x = static_cast<std::uint64_t>(value) + 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// Two neighbours: circles[resource][place] and the next.
struct Neighbours {
  int resource = -1, place = 0;
};

// How far orders are from a period: a step is played as early as its own constraints allow, then
// what reaches into the next step is counted by the time it comes too late. The late starts are
// played once more, so that a delay without consequences counts once and one that grows counts
// again.
class Lateness {
 public:
  explicit Lateness(const CyclicProblem& p) : p_(p), next_(p.ops.size()), from_(p.ops.size()) {
    for (const CyclicEdge& e : p.edges)
      if (e.distance <= 0)
        from_[at(e.from)].push_back(e);
      else
        across_.push_back(e);
    for (int i = 0; i < static_cast<int>(p.ops.size()); ++i) order_.push_back(i);
  }

  void set_period(Index period) { period_ = period; }
  void set_circle(int resource, const Circle& circle) {
    for (int k = 0; k < static_cast<int>(circle.size()); ++k) {
      const CyclicEdge edge = edge_between(p_, circle, k);
      next_[at(edge.from)] = {edge, {resource, k}};
    }
  }

  // 0: the period is feasible. Nothing where no period is; counting stops at `limit`.
  std::optional<Index> count(Index limit) {
    start_.assign(p_.ops.size(), 0), parent_.assign(p_.ops.size(), {});
    Index sum = 0;
    for (int round = 0; round < kRounds; ++round) {
      if (!play()) return std::nullopt;
      Index late = 0;
      for_late([&](const CyclicEdge& e, const Neighbours&) { late += lateness(e); });
      sum += late;
      if (late == 0 || sum >= limit || round + 1 == kRounds) break;
      for_late([&](const CyclicEdge& e, const Neighbours& n) { raise(e, n); });
    }
    return sum;
  }

  // After count: the neighbours on the paths to what comes too late.
  std::vector<Neighbours> critical() {
    std::vector<Neighbours> out;
    std::vector<bool> seen(p_.ops.size(), false);
    const auto note = [&](const Neighbours& n) {
      if (n.resource >= 0) out.push_back(n);
    };
    for_late([&](const CyclicEdge& e, const Neighbours& n) {
      note(n);
      for (int i = e.from; !seen[at(i)] && parent_[at(i)].op >= 0; i = parent_[at(i)].op) {
        seen[at(i)] = true;
        note(parent_[at(i)].neighbours);
      }
    });
    return out;
  }

  // After count: the next ones look at constraints in the order of these starts, in which one pass
  // finds nearly all.
  void remember_order() {
    std::ranges::stable_sort(order_, {}, [&](int i) { return start_[at(i)]; });
  }

  Index work() const { return work_; }
  const std::vector<Index>& starts() const { return start_; }  // after count

 private:
  static constexpr int kRounds = 2;
  struct Next {
    CyclicEdge edge;
    Neighbours neighbours;
  };
  struct Parent {
    int op = -1;
    Neighbours neighbours;
  };

  Index lateness(const CyclicEdge& e) const {
    return start_[at(e.from)] + e.latency - e.distance * period_ - start_[at(e.to)];
  }

  template <class Do>
  void for_late(Do act) {
    for (const CyclicEdge& e : across_)
      if (lateness(e) > 0) act(e, Neighbours{});
    for (const Next& next : next_)
      if (next.edge.distance > 0 && next.edge.from != next.edge.to && lateness(next.edge) > 0)
        act(next.edge, next.neighbours);
  }

  bool raise(const CyclicEdge& e, const Neighbours& n) {
    const Index late = lateness(e);
    if (late <= 0) return false;
    start_[at(e.to)] += late;
    parent_[at(e.to)] = {e.from, n};
    return true;
  }

  // False where the orders contradict the step's own constraints.
  bool play() {
    for (int pass = 0; pass < static_cast<int>(p_.ops.size()) + 2; ++pass) {
      bool changed = false;
      work_ += static_cast<Index>(p_.edges.size() + next_.size());
      for (int i : order_) {
        for (const CyclicEdge& e : from_[at(i)]) changed = raise(e, {}) || changed;
        const Next& next = next_[at(i)];
        if (next.edge.distance <= 0) changed = raise(next.edge, next.neighbours) || changed;
      }
      if (!changed) return true;
      // A contradiction raises starts for ever; no order of a step is this long.
      if (pass % 32 == 31 && *std::ranges::max_element(start_) > 16 * period_) return false;
    }
    return false;
  }

  const CyclicProblem& p_;
  Index period_ = 0, work_ = 0;
  std::vector<CyclicEdge> across_;             // the problem's constraints between steps
  std::vector<Next> next_;                     // per op, its successor on its circle
  std::vector<std::vector<CyclicEdge>> from_;  // per op, the problem's constraints within a step
  std::vector<int> order_;
  std::vector<Index> start_;
  std::vector<Parent> parent_;
};

class OrderSearch {
 public:
  OrderSearch(const CyclicProblem& p, const OrderSearchOptions& options)
      : p_(p), options_(options), lateness_(p) {}

  Index work() const { return lateness_.work(); }
  const std::vector<Circle>& circles() const { return now_; }

  // Times with a period of `goal`, from the given orders on.
  std::optional<CyclicTimes> reach(const std::vector<Circle>& circles, Index goal, Index work) {
    now_ = circles;
    tabu_.clear();
    lateness_.set_period(goal);
    for (int r = 0; r < p_.resources; ++r) lateness_.set_circle(r, now_[at(r)]);
    Index least = std::numeric_limits<Index>::max();
    const Index end = lateness_.work() + work;
    for (Index step = 0; lateness_.work() < end; ++step) {
      const std::optional<Index> late = lateness_.count(std::numeric_limits<Index>::max());
      if (!late) return std::nullopt;
      if (*late == 0) return tightened(p_, now_, lateness_.starts());
      lateness_.remember_order();
      least = std::min(least, *late);
      if (move(least, step)) continue;
      if (tabu_.empty()) return std::nullopt;
      tabu_.clear();
    }
    return std::nullopt;
  }

 private:
  // Exchanges the critical neighbours after which the least comes too late.
  bool move(Index least, Index step) {
    std::vector<Neighbours> candidates = lateness_.critical();
    std::ranges::stable_sort(candidates, {}, [&](const Neighbours& n) {
      return scramble((options_.salt << 40) + step * 1000003 + n.resource * 10007 + n.place);
    });
    if (candidates.size() > kCandidates) candidates.resize(kCandidates);
    Index best = std::numeric_limits<Index>::max();
    Circle chosen;
    int resource = -1;
    std::pair<int, int> undone;
    for (const Neighbours& n : candidates) {
      const Circle& circle = now_[at(n.resource)];
      const int a = circle[at(n.place)].op, b = circle[(at(n.place) + 1) % circle.size()].op;
      if (in_one_chain(a, b)) continue;
      Circle next = circle;
      if (!exchange(next, n.place)) continue;
      lateness_.set_circle(n.resource, next);
      const std::optional<Index> late = lateness_.count(best);
      lateness_.set_circle(n.resource, circle);
      const auto forbidden = tabu_.find({a, b});
      const bool tabu = forbidden != tabu_.end() && forbidden->second > step;
      if (!late || *late >= best || (tabu && *late >= least)) continue;
      best = *late, chosen = std::move(next), resource = n.resource, undone = {b, a};
      if (best == 0) break;
    }
    if (resource < 0) return false;
    now_[at(resource)] = std::move(chosen);
    lateness_.set_circle(resource, now_[at(resource)]);
    tabu_[undone] = step + 8 + static_cast<Index>(scramble(step) % 12);
    return true;
  }

  bool in_one_chain(int a, int b) const {
    const CyclicOp &x = p_.ops[at(a)], &y = p_.ops[at(b)];
    return x.pipe == y.pipe && x.stage == y.stage && x.part == y.part;
  }

  // False where more than the buffers would be alive.
  bool exchange(Circle& circle, int place) const {
    if (at(place) + 1 == circle.size()) {
      // The first follows the last one turn later: open the circle behind it instead.
      std::ranges::rotate(circle, circle.begin() + 1);
      --circle.back().turn;
      --place;
    }
    std::swap(circle[at(place)], circle[at(place) + 1]);
    return peak_buffers(p_, circle) <= options_.buffers;
  }

  static constexpr std::size_t kCandidates = 40;
  const CyclicProblem& p_;
  OrderSearchOptions options_;
  Lateness lateness_;
  std::vector<Circle> now_;
  std::map<std::pair<int, int>, Index> tabu_;  // (a, b): not a before b again until that step
};

}  // namespace

CyclicTimes improved(const CyclicProblem& problem, const CyclicTimes& times,
                     const std::vector<Circle>& circles, const OrderSearchOptions& options) {
  constexpr Index kTries = 3;
  OrderSearch search(problem, options);
  CyclicTimes best = times;
  std::vector<Circle> from = circles;
  const Index step = std::max<Index>(1, problem.search.quanta.unit / 12);
  for (Index goal = options.bound; goal < best.period && search.work() < options.work;) {
    if (auto reached = search.reach(from, goal, options.work / kTries)) {
      best = *std::move(reached), from = search.circles();
    } else {
      goal = std::max(goal + step, (goal + best.period) / 2);
    }
  }
  return best;
}

}  // namespace chimera::schedule
