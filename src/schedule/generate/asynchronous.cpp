// Schedules without a flush: 1F1B whose steps overlap, on weights that lag behind (version).
#include "generators.h"

namespace chimera::schedule {
namespace {

// 1F1B at its steady pace: as in one_f_one_b, step after step every 2N ticks.
ComputePlan steady_one_f_one_b(const char* name, int D, int N) {
  ComputePlan plan = one_f_one_b(D, N);
  plan.name = name;
  plan.period = 2 * N;
  return plan;
}

}  // namespace

// PipeDream with weight stashing (Narayanan et al., SOSP 2019): every micro-batch is a step. Stage s
// has D-1-s micro-batches forwarded and not yet updated by when it forwards the next, so its weights
// lag behind by that many updates; the backward uses the version of the forward.
ComputePlan pipedream(int D) {
  ComputePlan plan = steady_one_f_one_b("pipedream", D, 1);
  for (std::vector<Instr>& worker : plan.workers)
    for (Instr& in : worker) in.version = D - 1 - in.stage;
  return plan;
}

// PipeDream-2BW (Narayanan et al., ICML 2021): gradients of N >= D micro-batches make one update;
// step t runs on the weights of step t - 1 at every stage, so two versions are enough.
ComputePlan pipedream_2bw(int D, int N) {
  ComputePlan plan = steady_one_f_one_b("pipedream-2bw", D, N);
  for (std::vector<Instr>& worker : plan.workers)
    for (Instr& in : worker) in.version = 1;
  return plan;
}

}  // namespace chimera::schedule
