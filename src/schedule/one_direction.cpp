// Schedules with one pipeline: stage s on worker s. At D = 1, 1f1b is plain serial training.
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

}  // namespace chimera::schedule
