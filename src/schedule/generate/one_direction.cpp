// Synchronous schedules of whole pipelines: stage s on worker s; GEMS adds a mirrored replica. At D
// = 1, 1f1b is plain serial training.
#include "generators.h"

namespace chimera::schedule {

// GPipe: forwards fill the pipeline one tick apart, backwards follow when all are through. GPipe
// itself runs the backwards last to first; ascending order costs no tick and adds gradients as the
// others do.
ComputePlan gpipe(int D, int N) {
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

// DAPPLE's 1F1B: micro-batch m starts at tick 2m, moves one stage per tick, turns at the last stage
// and comes back, so a stage's forwards and backwards have ticks of different parity.
ComputePlan one_f_one_b(int D, int N) {
  ComputePlan plan = empty_plan("1f1b", D, N);
  plan.placement = {one_way(D)};
  for (int m = 0; m < N; ++m)
    for (int s = 0; s < D; ++s) {
      add(plan, 2 * m + s, Op::Forward, 0, s, m);
      add(plan, 2 * m + 2 * D - 1 - s, Op::Backward, 0, s, m);
    }
  return sorted(std::move(plan));
}

// GEMS (Jain et al., SC 2020): two replicas in opposite directions, one micro-batch on its way back
// while the next, on the other replica, follows it forward over the same workers. Every worker holds
// the activations of one.
ComputePlan gems(int D, int N) {
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

}  // namespace chimera::schedule
