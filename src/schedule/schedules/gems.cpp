// GEMS (Jain et al., SC 2020).
#include "generate/generators.h"

namespace chimera::schedule {
namespace {

// Two replicas in opposite directions, one micro-batch on its way back while the next, on the other
// replica, follows it forward over the same workers. Every worker holds the activations of one.
ComputePlan make(const Request& r) {
  const int D = r.depth, N = r.micro_batches;
  ComputePlan plan = empty_plan("gems", D, N);
  plan.pipeline_pairs = 1;
  plan.placement = place_bidirectional(D, 1);
  for (int m = 0; m < N; ++m)
    for (int s = 0; s < D; ++s) {
      const int start = (D + 1) * m;
      add(plan, start + s, Op::Forward, m % 2, s, m);
      add(plan, start + 2 * D - 1 - s, Op::Backward, m % 2, s, m);
    }
  return sorted(std::move(plan));
}

}  // namespace

extern const ScheduleInfo gems_schedule = {
    .name = "gems",
    .rule = "two replicas in opposite directions, one micro-batch in flight per worker; any depth",
    .reference = "Jain et al., GEMS, SC 2020",
    .place = 30,
    .traits = {.bidirectional = true},
    .make = make};

}  // namespace chimera::schedule
