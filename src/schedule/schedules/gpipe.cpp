// GPipe (Huang et al., NeurIPS 2019).
#include "generate/generators.h"

namespace chimera::schedule {
namespace {

// Forwards fill the pipeline one tick apart, backwards follow when all are through. GPipe itself
// runs the backwards last to first; ascending order costs no tick and adds gradients as the others
// do.
ComputePlan make(const Request& r) {
  const int D = r.depth, N = r.micro_batches;
  ComputePlan plan = empty_plan("gpipe", D, N);
  plan.placement = {one_way(D)};
  const int turn = N + D - 1;  // the last stage has finished its forwards
  for (int m = 0; m < N; ++m)
    for (int s = 0; s < D; ++s) {
      add(plan, s + m, Op::Forward, 0, s, m);
      add(plan, turn + (D - 1 - s) + m, Op::Backward, 0, s, m);
    }
  return sorted(std::move(plan));
}

}  // namespace

extern const ScheduleInfo gpipe_schedule = {
    .name = "gpipe",
    .rule =
        "all forwards, then all backwards; any depth; 2(D-1) bubbles, N micro-batches in flight",
    .reference = "Huang et al., GPipe, NeurIPS 2019",
    .place = 10,
    .make = make};

}  // namespace chimera::schedule
