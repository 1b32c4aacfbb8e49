// Chimera: f pipelines down and f up over the same workers (Li and Hoefler, SC'21,
// sections 3.1, 3.5 and 3.6). Each runs 1F1B in its own ticks; for even D the timetables never
// meet.
#include <algorithm>

#include "generators.h"

namespace chimera::schedule {

std::vector<std::vector<int>> place_bidirectional(int D, int f) {
  std::vector<std::vector<int>> placement;
  for (int pipe = 0; pipe < 2 * f; ++pipe) {
    std::vector<int>& workers = placement.emplace_back();
    for (int s = 0; s < D; ++s)
      workers.push_back((pipe % f * (D / f) + (pipe < f ? s : D - 1 - s)) % D);
  }
  return placement;
}

int share_of_pipe(int n, int pipe, int f) {
  const int turn = 2 * (pipe % f) + pipe / f;
  return n / (2 * f) + (turn < n % (2 * f) ? 1 : 0);
}

// Direct concatenation: units of D micro-batches follow every 2D ticks; the rest of N is one more
// unit that uses some of a full unit's ticks.
ComputePlan chimera_direct(int D, int N, int f) {
  ComputePlan plan = empty_plan("chimera", D, N);
  plan.pipeline_pairs = f;
  plan.placement = place_bidirectional(D, f);
  for (int first = 0; first < N; first += D) {
    const int unit = N - first < D ? N - first : D;
    int m = first;
    for (int pipe = 0; pipe < 2 * f; ++pipe)
      for (int k = 0; k < share_of_pipe(unit, pipe, f); ++k, ++m)
        for (int s = 0; s < D; ++s) {
          const int start = 2 * first + 2 * k;
          add(plan, start + s, Op::Forward, pipe, s, m);
          add(plan, start + 2 * D - 1 - s, Op::Backward, pipe, s, m);
        }
  }
  return sorted(std::move(plan));
}

// Forward doubling (section 3.5, Fig. 7(c)): double units of 2D micro-batches, two in every forward
// and one in every backward, so both take about as long: on a grid of slots of two forwards, the
// slot rule with D/2 pairs and D backwards per pipe, a unit every 3D slots; an odd rest of D
// micro-batches is one plain unit. The first unit's forwards are issued one by one, since its first
// stages have nothing else to do: the pipeline fills in half the time (Fig. 7(d)).
ComputePlan chimera_doubling(int D, int N) {
  ComputePlan plan = empty_plan("chimera", D, N);
  plan.pipeline_pairs = 1;
  plan.placement = place_bidirectional(D, 1);
  const int doubles = N / D / 2;
  const auto micro = [&](int unit, int pipe, int i) {  // the i-th of the pipe in its unit
    const int odd_one = i % 2 == 0 && unit == doubles && i + 1 == D / 2;
    return 2 * D * unit + (odd_one ? 2 * i + pipe : 4 * (i / 2) + 2 * pipe + i % 2);
  };
  for (int pipe = 0; pipe < 2; ++pipe)
    for (int s = 0; s < D; ++s) {
      for (int unit = 0; unit < doubles; ++unit) {
        for (int pair = 0; pair < D / 2; ++pair) {
          const int slot = 3 * D * unit + s + 2 * pair, m = micro(unit, pipe, 2 * pair);
          add(plan, 2 * slot, Op::Forward, pipe, s, m, unit == 0 ? 1 : 2);
          if (unit == 0) add(plan, 2 * slot + 1, Op::Forward, pipe, s, m + 1);
        }
        for (int i = 0; i < D; ++i)
          add(plan, 2 * (3 * D * unit + 2 * D - 1 - s + 2 * i), Op::Backward, pipe, s,
              micro(unit, pipe, i));
      }
      if (N / D % 2 == 0) continue;
      for (int k = 0; k < D / 2; ++k) {
        const int start = 3 * D * doubles + 2 * k, m = micro(doubles, pipe, k);
        add(plan, 2 * (start + s), Op::Forward, pipe, s, m);
        add(plan, 2 * (start + 2 * D - 1 - s), Op::Backward, pipe, s, m);
      }
    }
  return sorted(std::move(plan));
}

}  // namespace chimera::schedule
