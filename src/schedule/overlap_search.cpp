#include "overlap_search.h"

#include <algorithm>
#include <optional>
#include <tuple>

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
  CyclicTimes times;
  int slots = 0;
};

class OverlapSearch {
 public:
  OverlapSearch(const CyclicProblem& p, const OverlapLimits& limits)
      : p_(p), limits_(limits), bound_(least_period(p)) {}

  CyclicTimes run() {
    for (Index slack : {Index{0}, Index{p_.depth()}}) consider(closed_form(p_, slack));
    const int D = p_.depth(), N = p_.search.frame.micro_batches;
    std::vector<int> limits = {limits_.slots};
    if (limits_.slots == 0) limits = {D, D + D / 4, D + D / 2, 2 * D, N};
    for (int slots : limits)
      if (!done()) modulo(slots);
    improve();
    if (limits_.slots == 0) save_slots();
    return best().times;
  }

 private:
  // Over the limit comes last; then the period, then the slots.
  auto rank(const Found& found) const {
    const int over = limits_.slots > 0 ? std::max(0, found.slots - limits_.slots) : 0;
    return std::tuple(over, found.times.period, found.slots);
  }
  const Found& best() const { return found_.front(); }
  bool done() const {
    return best().times.period <= bound_ &&
           best().slots <= (limits_.slots > 0 ? limits_.slots : p_.depth());
  }

  void consider(const CyclicTimes& times) {
    std::optional<CyclicTimes> tight = tightened(p_, times);
    if (!tight) return;
    const int slots = peak_slots(p_, *tight);
    Found found{*std::move(tight), slots};
    const auto place =
        std::ranges::upper_bound(found_, rank(found), {}, [&](const Found& f) { return rank(f); });
    found_.insert(place, std::move(found));
    if (found_.size() > kKept) found_.pop_back();
  }

  // From the bound on, in growing steps, until a period serves or is no longer of interest.
  void modulo(int slots) {
    const Index unit = p_.search.quanta.unit;
    for (int spread : {0, 1, 2, 4, p_.depth()})
      for (Index bonus : {Index{0}, -2 * unit}) {
        ModuloRule rule;
        rule.slots = slots, rule.spread = spread, rule.weight_bonus = bonus;
        Index step = std::max<Index>(1, unit / 4);
        for (Index period = bound_;; period += step, step += step / 2) {
          const bool fits = best().slots <= slots;
          if (fits && period >= best().times.period) break;
          if (const auto times = modulo_schedule(p_, period, rule)) {
            consider(*times);
            break;
          }
        }
        if (done()) return;
      }
  }

  void improve() {
    const std::vector<Found> starts = found_;
    for (const Found& start : starts) {
      if (best().times.period <= bound_) return;
      const int slots = limits_.slots > 0 ? limits_.slots : std::max(start.slots, p_.depth());
      consider(improved(p_, start.times, std::max(slots, start.slots), bound_,
                        limits_.work / Index{kKept}));
    }
  }

  // The same period with fewer slots.
  void save_slots() {
    while (best().slots > 1) {
      const int before = best().slots;
      const Index period = best().times.period;
      for (int spread : {0, 1, 2, 4, p_.depth()})
        for (Index bonus : {Index{0}, -2 * p_.search.quanta.unit}) {
          if (best().slots < before) break;
          ModuloRule rule;
          rule.slots = before - 1, rule.spread = spread, rule.weight_bonus = bonus;
          if (const auto times = modulo_schedule(p_, period, rule)) consider(*times);
        }
      if (best().slots == before) return;
    }
  }

  static constexpr std::size_t kKept = 4;
  const CyclicProblem& p_;
  OverlapLimits limits_;
  Index bound_;
  std::vector<Found> found_;  // best first
};

}  // namespace

CyclicTimes search_overlap(const CyclicProblem& problem, const OverlapLimits& limits) {
  return OverlapSearch(problem, limits).run();
}

}  // namespace chimera::schedule
