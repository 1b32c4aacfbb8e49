// Forwards alone, over the pipes that training uses.
#include <algorithm>

#include "generators.h"

namespace chimera::schedule {

// Each micro-batch starts at the first tick at which its whole way is free, so that no worker holds
// more than the micro-batch it computes and the one it sends.
ComputePlan generate_evaluation(const std::vector<std::vector<int>>& placement, int depth,
                                int micro_batches) {
  if (micro_batches < 1)
    FailUsage("micro_batches is ", micro_batches, "; evaluation needs at least 1");
  ComputePlan plan = empty_plan("evaluation", depth, micro_batches);
  plan.forward_only = true;
  plan.placement = placement;
  const int pipes = static_cast<int>(placement.size());
  plan.virtual_stages = div_exact(static_cast<int>(placement.front().size()), depth);
  plan.pipeline_pairs = pipes / 2;
  std::vector<std::vector<bool>> busy(static_cast<std::size_t>(depth));  // [worker][tick]
  const auto is_free = [&](int worker, int tick) {
    const std::vector<bool>& row = busy[static_cast<std::size_t>(worker)];
    return tick >= static_cast<int>(row.size()) || !row[static_cast<std::size_t>(tick)];
  };
  std::vector<int> starts(placement.size());  // the earliest start not yet tried, per pipe
  for (int m = 0; m < micro_batches; ++m) {
    const int pipe = m % pipes;
    const std::vector<int>& way = placement[static_cast<std::size_t>(pipe)];
    int& start = starts[static_cast<std::size_t>(pipe)];
    const auto blocked = [&] {
      for (int s = 0; s < plan.stages(); ++s)
        if (!is_free(way[static_cast<std::size_t>(s)], start + s)) return true;
      return false;
    };
    while (blocked()) ++start;
    for (int s = 0; s < plan.stages(); ++s) {
      std::vector<bool>& row = busy[static_cast<std::size_t>(way[static_cast<std::size_t>(s)])];
      row.resize(std::max(row.size(), static_cast<std::size_t>(start + s) + 1));
      row[static_cast<std::size_t>(start + s)] = true;
      add(plan, start + s, Op::Forward, pipe, s, m);
    }
    ++start;
  }
  return sorted(std::move(plan));
}

}  // namespace chimera::schedule
