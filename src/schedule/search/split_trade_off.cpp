#include <algorithm>

#include "chimera/schedule/split_search.h"
#include "generate/generators.h"
#include "list_scheduler.h"
#include "overlap_search.h"

namespace chimera::schedule {
namespace {

struct Outcome {
  Index time = 0;  // quanta per step
  int buffers = 0;
};

Outcome with_barrier(const SearchProblem& problem, int buffers) {
  const ListResult best = best_of(problem, split_rules(buffers));
  return {best.makespan + problem.quanta.update, best.buffers};
}

Outcome without_barrier(const CyclicProblem& problem, int buffers) {
  const CyclicTimes times = search_overlap(problem, {.buffers = buffers, .work = kSearchWork / 4});
  return {times.period, peak_buffers(problem, times)};
}

}  // namespace

std::vector<TradePoint> split_trade_off(const Request& r, bool overlap, int most_buffers) {
  const std::string refused = refusal(r);
  if (!refused.empty()) FailUsage(refused);
  const CyclicProblem problem(
      problem_like(chimera_direct(r.depth, r.micro_batches, r.pipeline_pairs), r));
  const double unit = static_cast<double>(problem.search.quanta.unit);
  std::vector<TradePoint> points;
  const int most = most_buffers > 0 ? most_buffers : 2 * r.depth;
  for (int buffers = 1; buffers <= std::min(most, r.micro_batches); ++buffers) {
    const Outcome found =
        overlap ? without_barrier(problem, buffers) : with_barrier(problem.search, buffers);
    if (found.buffers > buffers) continue;  // no schedule was found that keeps the limit
    const double idle = static_cast<double>(found.time - problem.work) / unit;
    if (!points.empty() && idle >= points.back().idle) continue;
    points.push_back({r.depth, r.micro_batches, found.buffers,
                      static_cast<double>(problem.search.quanta.update) / unit, idle});
    if (idle == 0) break;
  }
  return points;
}

}  // namespace chimera::schedule
