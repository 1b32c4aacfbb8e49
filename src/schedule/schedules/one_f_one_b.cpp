// 1F1B, the synchronous one of DAPPLE (Fan et al., PPoPP 2021). At D = 1 it is plain serial
// training.
#include "generate/generators.h"

namespace chimera::schedule {

// Micro-batch m starts at tick 2m, moves one stage per tick, turns at the last stage and comes
// back, so a stage's forwards and backwards have ticks of different parity.
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

ComputePlan steady_one_f_one_b(const char* name, int D, int N) {
  ComputePlan plan = one_f_one_b(D, N);
  plan.name = name;
  plan.period = 2 * N;
  return plan;
}

namespace {

ComputePlan make(const Request& r) { return one_f_one_b(r.depth, r.micro_batches); }

}  // namespace

extern const ScheduleInfo one_f_one_b_schedule = {
    .name = "1f1b",
    .rule = "one forward, one backward in turn; any depth; 2(D-1) bubbles, at most D in flight",
    .reference = "Fan et al., DAPPLE, PPoPP 2021",
    .place = 20,
    .traits = {.serial = true},
    .make = make};

}  // namespace chimera::schedule
