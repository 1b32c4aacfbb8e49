// Zero bubble H1 (Qi et al., Zero Bubble Pipeline Parallelism, ICLR 2024): 1F1B whose weight
// gradients wait for idle time, without more memory than 1F1B's first stage needs.
#include "generate/generators.h"
#include "list_scheduler.h"
#include "searched.h"

namespace chimera::schedule {

ComputePlan zb_h1(const Request& r) {
  SearchProblem problem = problem_like(one_f_one_b(r.depth, r.micro_batches), r);
  problem.frame.name = "zb-h1";
  std::vector<ListRule> rules;
  for (Preference preference : {Preference::Steady, Preference::Oldest, Preference::Deepest})
    rules.push_back({.preference = preference, .buffers = r.depth});
  return plan_of(problem, best_of(problem, rules));
}

}  // namespace chimera::schedule
