#include <algorithm>

#include "chimera/schedule/split_search.h"
#include "generate/generators.h"
#include "list_scheduler.h"
#include "overlap_search.h"

namespace chimera::schedule {
namespace {

struct Outcome {
  Index time = 0;  // quanta per step
  int slots = 0;
};

Outcome with_barrier(const SearchProblem& problem, int slots) {
  const ListResult best = best_of(problem, split_rules(slots));
  return {best.makespan + problem.quanta.update, best.slots};
}

Outcome without_barrier(const CyclicProblem& problem, int slots) {
  const CyclicTimes times = search_overlap(problem, {.slots = slots, .work = kSearchWork / 4});
  return {times.period, peak_slots(problem, times)};
}

}  // namespace

std::vector<TradePoint> split_trade_off(const Request& r, bool overlap, int most_slots) {
  const std::string refused = refusal(r).text;
  if (!refused.empty()) FailUsage(refused);
  const CyclicProblem problem(
      problem_like(chimera_direct(r.depth, r.micro_batches, r.pipeline_pairs), r));
  const double unit = static_cast<double>(problem.search.quanta.unit);
  std::vector<TradePoint> points;
  const int most = most_slots > 0 ? most_slots : 2 * r.depth;
  for (int slots = 1; slots <= std::min(most, r.micro_batches); ++slots) {
    const Outcome found =
        overlap ? without_barrier(problem, slots) : with_barrier(problem.search, slots);
    if (found.slots > slots) continue;  // no schedule was found that keeps the limit
    const double idle = static_cast<double>(found.time - problem.work) / unit;
    if (!points.empty() && idle >= points.back().idle) continue;
    points.push_back({r.depth, r.micro_batches, found.slots,
                      static_cast<double>(problem.search.quanta.update) / unit, idle});
    if (idle == 0) break;
  }
  return points;
}

}  // namespace chimera::schedule
