// PipeDream with weight stashing (Narayanan et al., SOSP 2019).
#include "generate/generators.h"

namespace chimera::schedule {
namespace {

// Every micro-batch is a step. Stage s has D-1-s micro-batches forwarded and not yet updated by
// when it forwards the next, so its weights lag behind by that many updates; the backward uses the
// version of the forward.
ComputePlan make(const Request& r) {
  ComputePlan plan = steady_one_f_one_b("pipedream", r.depth, 1);
  for (std::vector<Instr>& worker : plan.workers)
    for (Instr& in : worker) in.version = r.depth - 1 - in.stage;
  return plan;
}

// Stale schedules whose step is any number of micro-batches.
std::string several_per_step() {
  return schedules_with([](const Traits& t) { return t.stale && t.micro_batches_per_step == 0; });
}

void check(const Request& r) {
  if (r.micro_batches != 1)
    refuse("micro_batches", r.micro_batches,
           "; pipedream updates after every micro-batch: use 1, or schedule ", several_per_step());
  if (r.tied)
    FailUsage(
        "the embeddings are tied; under pipedream the first and the last stage hold different "
        "versions of one matrix: use tied_embeddings false, or schedule ",
        several_per_step());
}

}  // namespace

extern const ScheduleInfo pipedream_schedule = {
    .name = "pipedream",
    .rule =
        "no flush: every micro-batch is a step (N = 1), weights up to D-1 updates old; any depth",
    .reference = "Narayanan et al., PipeDream, SOSP 2019",
    .place = 50,
    .traits = {.stale = true, .micro_batches_per_step = 1},
    .check = check,
    .make = make};

}  // namespace chimera::schedule
