#include "overlap_search.h"

#include <algorithm>
#include <optional>
#include <tuple>

#include "list_scheduler.h"
#include "modulo_scheduler.h"
#include "order_search.h"

namespace chimera::schedule {
namespace {

// In units of D micro-batches, unit u from tick 3Du on, the pipe's k-th of a unit:
//   F(s, k) = s + 2k     B(s, k) = 2D - 1 - s + 2k     W(s, k) = 2D + s + 2k
// F and B are Chimera's own; down F and up B of a worker fill every other tick, 2D ticks long, and
// up F and down B the same of the other parity. The D/2 ticks left in each parity until 3D take the
// W, whose s + 2k they start with. So a period of 3N has no idle tick; all W of stage s end by
// s + 3D - 1, R = 1 before its next F (D - D/f + 1 with f pairs), and a worker never holds more
// than the unit's D. `slack` lengthens the period: with at least D no step touches the next.
CyclicTimes closed_form(const CyclicProblem& p, Index slack) {
  const Index D = p.depth(),
              per_unit = std::max<Index>(1, D / std::max(1, 2 * p.search.frame.pipeline_pairs));
  Index units = 1;
  for (int pipe = 0; pipe < p.pipes; ++pipe)
    units = std::max(units, ceil_div<Index>(p.count(pipe), per_unit));
  CyclicTimes times{3 * D * units + slack, {}};
  for (const CyclicOp& op : p.ops) {
    const Index base = 3 * D * (op.index / per_unit) + 2 * (op.index % per_unit);
    times.start.push_back(base + (op.part == Part::Forward ? op.stage
                                  : op.part == Part::Input ? 2 * D - 1 - op.stage
                                                           : 2 * D + op.stage));
  }
  return times;
}

struct Found {
  CyclicTimes times;            // tightened
  std::vector<Circle> circles;  // as they were before
  int buffers = 0;              // used
  int allowed = 0;              // when it was looked for
};

class OverlapSearch {
 public:
  OverlapSearch(const CyclicProblem& p, const OverlapLimits& limits)
      : p_(p), limits_(limits), bound_(least_period(p, p.edges)) {}

  CyclicTimes run(const std::vector<CyclicTimes>& seeds) {
    const int D = p_.depth(), N = p_.search.frame.micro_batches;
    std::vector<int> buffers = {limits_.buffers};
    if (limits_.buffers == 0 && large()) buffers = {D, D + D / 2, N};
    if (limits_.buffers == 0 && !large()) buffers = {D, D + D / 4, D + D / 2, 2 * D, N};
    for (Index slack : {Index{0}, Index{D}})
      if (std::optional<Found> found = make(closed_form(p_, slack), buffers.front())) keep(*found);
    for (const CyclicTimes& seed : seeds)
      if (std::optional<Found> found = make(seed, buffers.front())) keep(*found);
    for (int allowed : buffers)
      if (!done() && p_.ops.size() <= kMostPlaced) modulo(allowed);
    for (Index salt = 0; salt < kRounds; ++salt) improve(salt);
    if (limits_.buffers == 0 && p_.ops.size() <= kMostPlaced) save_buffers();
    return best_->times;
  }

 private:
  std::optional<Found> make(const CyclicTimes& times, int allowed) const {
    std::vector<Circle> circles = circles_of(p_, times);
    std::optional<CyclicTimes> tight = tightened(p_, circles, times.start);
    if (!tight) return std::nullopt;
    const int buffers = peak_buffers(p_, *tight);
    return Found{*std::move(tight), std::move(circles), buffers, std::max(buffers, allowed)};
  }

  // Fewer tries, so that none takes more than a few seconds.
  bool large() const { return p_.ops.size() > 2048; }

  // Over the limit comes last; then the period, then the buffers.
  std::tuple<int, Index, int> rank(const Found& found) const {
    const int over = limits_.buffers > 0 ? std::max(0, found.buffers - limits_.buffers) : 0;
    return {over, found.times.period, found.buffers};
  }
  void propose(const Found& found) {
    if (!best_ || rank(found) < rank(*best_)) best_ = found;
  }
  void keep(const Found& found) {
    propose(found);
    starts_.push_back(found);
  }
  bool done() const {
    return best_ && best_->times.period <= bound_ &&
           best_->buffers <= (limits_.buffers > 0 ? limits_.buffers : p_.depth());
  }

  // Rules of different tempers, since none is best everywhere.
  std::vector<ModuloRule> rules(int buffers) const {
    std::vector<ModuloRule> out;
    const std::vector<int> spreads =
        large() ? std::vector<int>{0, 2} : std::vector<int>{0, 1, 2, 4, p_.depth()};
    for (int spread : spreads)
      for (Index bonus : {Index{0}, -2 * p_.search.quanta.unit})
        out.push_back({.buffers = buffers, .spread = spread, .weight_bonus = bonus});
    return out;
  }

  // Per rule from the bound on, in growing steps, until a period serves. Keeps the best two.
  void modulo(int allowed) {
    std::vector<Found> found;
    for (const ModuloRule& rule : rules(allowed)) {
      const ModuloScheduler scheduler(p_, rule);
      Index step = std::max<Index>(1, p_.search.quanta.unit / 4);
      for (Index period = scheduler.least_period();; period += step, step += step / 2) {
        if (!found.empty() && period >= found.front().times.period) break;
        const auto times = scheduler.run(period);
        if (!times) continue;
        if (const std::optional<Found> made = make(*times, allowed)) found.push_back(*made);
        break;
      }
      std::ranges::stable_sort(found, {}, [&](const Found& f) { return rank(f); });
      if (!found.empty() && found.front().times.period <= bound_) break;
    }
    for (std::size_t k = 0; k < found.size() && k < 2; ++k) keep(found[k]);
  }

  void improve(Index salt) {
    std::ranges::stable_sort(starts_, {}, [&](const Found& f) { return rank(f); });
    const Index work = limits_.work / (kRounds * static_cast<Index>(starts_.size()));
    for (Found& start : starts_) {
      if (best_->times.period <= bound_) return;
      const CyclicTimes times =
          improved(p_, start.times, start.circles,
                   {.buffers = start.allowed, .bound = bound_, .work = work, .salt = salt});
      const std::optional<Found> found = make(times, start.allowed);
      if (!found || !(rank(*found) < rank(start))) continue;
      propose(*found);
      start = *found;
    }
  }

  // The same period with fewer buffers.
  void save_buffers() {
    for (bool saved = true; saved && best_->buffers > 1;) {
      saved = false;
      const int buffers = best_->buffers - 1;
      for (const ModuloRule& rule : rules(buffers)) {
        const auto times = ModuloScheduler(p_, rule).run(best_->times.period);
        const std::optional<Found> found = times ? make(*times, buffers) : std::nullopt;
        if (found) propose(*found);
        saved = best_->buffers <= buffers;
        if (saved) break;
      }
    }
  }

  static constexpr Index kRounds = 3;
  static constexpr std::size_t kMostPlaced = 1 << 14;  // beyond, modulo scheduling takes minutes
  const CyclicProblem& p_;
  OverlapLimits limits_;
  Index bound_;
  std::optional<Found> best_;
  std::vector<Found> starts_;  // of `improve`
};

}  // namespace

CyclicTimes search_overlap(const CyclicProblem& problem, const OverlapLimits& limits,
                           const std::vector<CyclicTimes>& seeds) {
  return OverlapSearch(problem, limits).run(seeds);
}

ComputePlan overlapped_plan(const SearchProblem& problem, const OverlapLimits& limits) {
  const CyclicProblem folded(problem);
  CyclicTimes times;
  if (folded.mirrored) times = search_overlap(folded, limits);
  const int buffers = limits.buffers > 0 ? limits.buffers : problem.frame.depth;
  const ListResult barrier = best_of(problem, split_rules(buffers));
  const Index period = barrier.makespan + problem.quanta.update;
  const bool fits = limits.buffers == 0 || barrier.buffers <= limits.buffers;
  if (folded.mirrored && (times.period <= period || !fits)) return unfold(folded, times);
  // Its pipes do different things at a time.
  const CyclicProblem whole(problem, /*may_mirror=*/false);
  return unfold(whole, search_overlap(whole, limits, {times_of(whole, barrier.plan, period)}));
}

}  // namespace chimera::schedule
