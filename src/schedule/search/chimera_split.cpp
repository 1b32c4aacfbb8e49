// Chimera by search: the backward in two halves, with and without a barrier between steps, and
// forward doubling where its closed form collides.
#include "generate/generators.h"
#include "list_scheduler.h"
#include "overlap_search.h"
#include "searched.h"

namespace chimera::schedule {
namespace {

SearchProblem split_problem(const Request& r) {
  return problem_like(chimera_direct(r.depth, r.micro_batches, r.pipeline_pairs), r);
}

// Double units of 2D micro-batches, whose pairs go to the pipes in turn; an odd rest of D is shared
// the same way, single micro-batches last.
std::vector<std::vector<int>> in_pairs(int D, int N, int f) {
  std::vector<std::vector<int>> micros(static_cast<std::size_t>(2 * f));
  for (int base = 0; base < N; base += 2 * D) {
    const int unit = N - base < 2 * D ? N - base : 2 * D;
    const int each = div_exact(unit, 2 * f);
    for (int pipe = 0; pipe < 2 * f; ++pipe)
      for (int i = 0; i < each; ++i) {
        const bool single = i % 2 == 0 && i + 1 == each;
        micros[static_cast<std::size_t>(pipe)].push_back(
            base + (single ? 2 * f * i + pipe : 2 * (2 * f * (i / 2) + pipe) + i % 2));
      }
  }
  return micros;
}

}  // namespace

ComputePlan chimera_split(const Request& r) {
  const SearchProblem problem = split_problem(r);
  return plan_of(problem, best_of(problem, split_rules(r.depth)));
}

ComputePlan chimera_overlapped(const Request& r, int buffers, Index work) {
  return overlapped_plan(split_problem(r), {.buffers = buffers, .work = work});
}

ComputePlan chimera_doubling_searched(const Request& r) {
  SearchProblem problem = split_problem(r);
  problem.micros = in_pairs(r.depth, r.micro_batches, r.pipeline_pairs);
  // Single forwards at the start fill the pipeline in half the time (section 3.5, Fig. 7(d)).
  std::vector<ListRule> rules;
  for (int singles = 0; singles <= 2 * r.depth / r.pipeline_pairs; singles += 2)
    for (Preference preference : {Preference::Oldest, Preference::Deepest, Preference::Steady})
      rules.push_back({.preference = preference,
                       .split = false,
                       .span = 2,
                       .singles = singles,
                       .buffers = 2 * r.depth});
  return plan_of(problem, best_of(problem, rules));
}

}  // namespace chimera::schedule
