// PipeDream-2BW (Narayanan et al., ICML 2021).
#include "generate/generators.h"

namespace chimera::schedule {
namespace {

// Gradients of N >= D micro-batches make one update; step t runs on the weights of step t - 1 at
// every stage, so two versions are enough.
ComputePlan make(const Request& r) {
  ComputePlan plan = steady_one_f_one_b("pipedream-2bw", r.depth, r.micro_batches);
  for (std::vector<Instr>& worker : plan.workers)
    for (Instr& in : worker) in.version = 1;
  return plan;
}

void check(const Request& r) {
  if (r.micro_batches < r.depth)
    refuse("micro_batches", r.micro_batches,
           "; pipedream-2bw keeps two weight versions, "
           "which takes at least depth micro-batches per update: use ",
           r.depth);
}

}  // namespace

extern const ScheduleInfo pipedream_2bw_schedule = {
    .name = "pipedream-2bw",
    .rule =
        "no flush: N >= D micro-batches per step, on the weights of one update before; any depth",
    .reference = "Narayanan et al., PipeDream-2BW, ICML 2021",
    .place = 60,
    .traits = {.stale = true},
    .check = check,
    .make = make};

}  // namespace chimera::schedule
