// Zero bubble H1 (Qi et al., Zero Bubble Pipeline Parallelism, ICLR 2024).
#include "generate/generators.h"
#include "search/list_scheduler.h"

namespace chimera::schedule {
namespace {

// 1F1B whose weight gradients wait for idle time, without more memory than 1F1B's first stage
// needs: at most D micro-batches between forward and weight gradient. F = B = W: 3N + D - 1 for N
// >= D.
ComputePlan make(const Request& r) {
  SearchProblem problem = problem_like(one_f_one_b(r.depth, r.micro_batches), r);
  problem.frame.name = "zb-h1";
  std::vector<ListRule> rules;
  for (Preference preference : {Preference::Steady, Preference::Oldest, Preference::Deepest})
    rules.push_back({.preference = preference, .buffers = r.depth});
  return plan_of(problem, best_of(problem, rules));
}

}  // namespace

extern const ScheduleInfo zb_h1_schedule = {
    .name = "zb-h1",
    .rule = "1f1b with the backward in two halves, the weight half in the bubbles; any depth",
    .reference = "Qi et al., Zero Bubble, ICLR 2024",
    .place = 70,
    .traits = {.split = true},
    .make = make};

}  // namespace chimera::schedule
