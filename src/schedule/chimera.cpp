// Chimera: f pipelines down and f up over the same workers (Li and Hoefler, SC'21,
// sections 3.1, 3.5 and 3.6). Each runs 1F1B in its own ticks; for even D the timetables never
// meet.
#include "generators.h"

namespace chimera::schedule {
namespace {

// Down pipe i: stage s on worker (i D/f + s) mod D; up pipe i is its mirror image.
std::vector<std::vector<int>> place(int D, int f) {
  std::vector<std::vector<int>> placement;
  for (int pipe = 0; pipe < 2 * f; ++pipe) {
    std::vector<int>& workers = placement.emplace_back();
    for (int s = 0; s < D; ++s)
      workers.push_back((pipe % f * (D / f) + (pipe < f ? s : D - 1 - s)) % D);
  }
  return placement;
}

// How many of a unit's n <= D micro-batches pipe p gets: as even as can be, the surplus to down0,
// up0, down1, up1, … A full unit gives each D / 2f; a single one runs on down0 alone.
int share(int n, int pipe, int f) {
  const int turn = 2 * (pipe % f) + pipe / f;
  return n / (2 * f) + (turn < n % (2 * f) ? 1 : 0);
}

}  // namespace

// Direct concatenation: units of D micro-batches follow every 2D ticks; the rest of N is one more
// unit that uses some of a full unit's ticks.
ComputePlan chimera_direct(int D, int N, int f) {
  ComputePlan plan = empty_plan("chimera", D, N);
  plan.pipeline_pairs = f;
  plan.placement = place(D, f);
  for (int first = 0; first < N; first += D) {
    const int unit = N - first < D ? N - first : D;
    int m = first;
    for (int pipe = 0; pipe < 2 * f; ++pipe)
      for (int k = 0; k < share(unit, pipe, f); ++k, ++m)
        for (int s = 0; s < D; ++s) {
          const int start = 2 * first + 2 * k;
          add(plan, start + s, Op::Forward, pipe, s, m);
          add(plan, start + 2 * D - 1 - s, Op::Backward, pipe, s, m);
        }
  }
  return sorted(std::move(plan));
}

}  // namespace chimera::schedule
