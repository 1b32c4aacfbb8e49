#include "order_search.h"

#include <algorithm>
#include <map>

namespace chimera::schedule {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

// Fixed pseudo-random numbers (splitmix64's finaliser): ties are broken alike on every worker.
std::uint64_t scramble(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

class OrderSearch {
 public:
  OrderSearch(const CyclicProblem& p, const CyclicTimes& times, int slots)
      : p_(p), slots_(slots), paths_(p), now_(circles_of(p, times)), best_(now_) {
    period_ = times.period;
  }

  CyclicTimes run(Index bound, Index work) {
    for (Index step = 0; period_ > bound && paths_.work() < work; ++step) {
      paths_.set(now_);
      const Index goal = period_ - 1;
      const std::optional<Index> period = paths_.least_period(goal);
      if (!period) break;  // only if the times given were not valid
      if (*period == goal) {
        period_ = goal, best_ = now_;
        continue;
      }
      if (!move(goal, step)) {
        if (tabu_.empty()) break;
        tabu_.clear();
      }
    }
    paths_.set(best_);
    paths_.least_period(period_);
    return paths_.times();
  }

 private:
  // Exchanges the neighbours after which the orders allow the smallest ratio.
  bool move(Index goal, Index step) {
    std::vector<Neighbours> candidates = paths_.critical();
    std::ranges::sort(candidates, {}, [&](const Neighbours& n) {
      return scramble(static_cast<std::uint64_t>(step * 1000003 + n.resource * 10007 + n.place));
    });
    std::optional<Ratio> least;
    std::vector<Circle> chosen;
    std::pair<int, int> undone;
    for (const Neighbours& n : candidates) {
      const Circle& circle = now_[at(n.resource)];
      const int a = circle[at(n.place)].op;
      const int b = circle[static_cast<std::size_t>(n.place + 1) % circle.size()].op;
      if (in_one_chain(a, b)) continue;
      std::vector<Circle> next = now_;
      if (!exchange(next[at(n.resource)], n.place)) continue;
      paths_.set(next);
      const std::optional<Index> period = paths_.least_period(goal, least);
      if (!period) continue;
      const bool reached = *period == goal;
      const auto forbidden = tabu_.find({a, b});
      if (!reached && forbidden != tabu_.end() && forbidden->second > step) continue;
      least = reached ? Ratio{goal, 1} : paths_.ratio();
      chosen = std::move(next), undone = {b, a};
      if (reached) break;
    }
    if (!least) return false;
    now_ = std::move(chosen);
    tabu_[undone] = step + 8 + static_cast<Index>(scramble(static_cast<std::uint64_t>(step)) % 12);
    return true;
  }

  bool in_one_chain(int a, int b) const {
    const CyclicOp &x = p_.ops[at(a)], &y = p_.ops[at(b)];
    return x.pipe == y.pipe && x.stage == y.stage && x.part == y.part;
  }

  // False where more than the slots would be alive.
  bool exchange(Circle& circle, int place) const {
    if (static_cast<std::size_t>(place) + 1 == circle.size()) {
      // The first follows the last one turn later: open the circle behind it instead.
      std::ranges::rotate(circle, circle.begin() + 1);
      --circle.back().turn;
      --place;
    }
    std::swap(circle[at(place)], circle[at(place + 1)]);
    return peak_slots(p_, circle) <= slots_;
  }

  const CyclicProblem& p_;
  int slots_;
  LongestPaths paths_;
  std::vector<Circle> now_, best_;
  Index period_ = 0;
  std::map<std::pair<int, int>, Index> tabu_;  // (a, b): not a before b again until that step
};

}  // namespace

CyclicTimes improved(const CyclicProblem& problem, const CyclicTimes& times, int slots, Index bound,
                     Index work) {
  return OrderSearch(problem, times, slots).run(bound, work);
}

}  // namespace chimera::schedule
