// Megatron-LM's interleaved 1F1B (Narayanan et al., SC 2021, section 2.2).
#include <algorithm>

#include "generators.h"

namespace chimera::schedule {

// Worker w hosts stages w, w + D, … of v D ("chunks"): a micro-batch passes all workers v times,
// and each fill and drain of the pipeline lasts one v-th. Groups of D micro-batches go through all
// chunks in turn, in the backward through the last chunk first.
ComputePlan interleaved(int D, int N, int v) {
  ComputePlan plan = empty_plan("interleaved", D, N);
  plan.virtual_stages = v;
  std::vector<int>& workers = plan.placement.emplace_back();
  for (int s = 0; s < v * D; ++s) workers.push_back(s % D);
  const int total = v * N;  // forwards of a worker
  for (int w = 0; w < D; ++w) {
    const auto append = [&](Op op, int k) {
      const int turn = k % (v * D) / D, micro = k / (v * D) * D + k % D;
      const int chunk = op == Op::Forward ? turn : v - 1 - turn;
      add(plan, 0, op, 0, chunk * D + w, micro);
    };
    // These and one more fill the ticks until the first gradient: (v - 1) D forwards of the last
    // worker, 2 (D - 1 - w) on the way there and back. With one chunk, Megatron-LM runs 1F1B.
    const int warm_up = v == 1 ? D - 1 - w : 2 * (D - 1 - w) + (v - 1) * D;
    const int ahead = std::min(warm_up, total);
    for (int k = 0; k < total + ahead; ++k) {
      if (k < total) append(Op::Forward, k);
      if (k >= ahead) append(Op::Backward, k - ahead);
    }
  }
  return with_ticks(std::move(plan));
}

}  // namespace chimera::schedule
