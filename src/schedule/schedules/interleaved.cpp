// Megatron-LM's interleaved 1F1B (Narayanan et al., SC 2021, section 2.2).
#include <algorithm>

#include "generate/generators.h"

namespace chimera::schedule {
namespace {

// Worker w hosts stages w, w + D, … of v D ("chunks"): a micro-batch passes all workers v times,
// and each fill and drain of the pipeline lasts one v-th. Groups of D micro-batches go through all
// chunks in turn, in the backward through the last chunk first.
ComputePlan make(const Request& r) {
  const int D = r.depth, N = r.micro_batches, v = r.virtual_stages;
  ComputePlan plan = empty_plan("interleaved", D, N);
  plan.virtual_stages = v;
  std::vector<int>& workers = plan.placement.emplace_back();
  for (int s = 0; s < v * D; ++s) workers.push_back(s % D);
  const int total = v * N;  // forwards of a worker
  for (int w = 0; w < D; ++w) {
    const auto append = [&](Op op, int k) {
      const int turn = k % (v * D) / D, micro = k / (v * D) * D + k % D;
      const int chunk = op == Op::Forward ? turn : v - 1 - turn;
      add(plan, 0, op, 0, chunk * D + w, micro);
    };
    // These and one more fill the ticks until the first gradient: (v - 1) D forwards of the last
    // worker, 2 (D - 1 - w) on the way there and back. With one chunk, Megatron-LM runs 1F1B.
    const int warm_up = v == 1 ? D - 1 - w : 2 * (D - 1 - w) + (v - 1) * D;
    const int ahead = std::min(warm_up, total);
    for (int k = 0; k < total + ahead; ++k) {
      if (k < total) append(Op::Forward, k);
      if (k >= ahead) append(Op::Backward, k - ahead);
    }
  }
  return with_ticks(std::move(plan));
}

void check(const Request& r) {
  const Index most_chunks = std::min(kMostDepth, kMostCells / r.micro_batches) / r.depth;
  if (r.virtual_stages < 1 || r.virtual_stages > most_chunks)
    refuse("virtual_stages", r.virtual_stages, "; it must be 1 to ", most_chunks, " at depth ",
           r.depth, " with ", r.micro_batches, " micro-batches");
  if (r.virtual_stages > 1 && r.depth == 1)
    refuse("virtual_stages", r.virtual_stages,
           " at depth 1; neighbouring stages must be on "
           "two workers: use depth 2 or more, or 1 virtual stage");
  if (r.micro_batches % r.depth != 0)
    refuse("micro_batches", r.micro_batches, "; interleaved needs a multiple of depth ", r.depth,
           ": use ", nearest_multiple(r.micro_batches, r.depth));
}

}  // namespace

extern const ScheduleInfo interleaved_schedule = {
    .name = "interleaved",
    .rule =
        "1f1b with v stages per worker, a worker's stages D apart; N a multiple of D; 2(D-1)/v "
        "bubbles",
    .reference = "Narayanan et al., Megatron-LM, SC 2021",
    .place = 80,
    .traits = {.takes_virtual_stages = true},
    .check = check,
    .make = make};

}  // namespace chimera::schedule
