// Chimera: f pipelines down and f up over the same workers (Li and Hoefler, SC'21,
// sections 3.1, 3.5 and 3.6). Each runs 1F1B in its own ticks; for even D the timetables never
// meet.
#include <algorithm>

#include "generate/generators.h"
#include "search/chimera_search.h"

namespace chimera::schedule {

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

namespace {

// Forward doubling (section 3.5, Fig. 7(c)): double units of 2D micro-batches, two in every forward
// and one in every backward, so both take about as long: on a grid of buffers of two forwards, the
// buffer rule with D/2 pairs and D backwards per pipe, a unit every 3D buffers; an odd rest of D
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
          const int buffer = 3 * D * unit + s + 2 * pair, m = micro(unit, pipe, 2 * pair);
          add(plan, 2 * buffer, Op::Forward, pipe, s, m, unit == 0 ? 1 : 2);
          if (unit == 0) add(plan, 2 * buffer + 1, Op::Forward, pipe, s, m + 1);
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

// The divisor of n nearest to f; the smaller of two equally near ones.
int nearest_divisor(int n, int f) {
  int best = 1;
  for (int d = 1; d <= n; ++d)
    if (n % d == 0 && std::abs(d - f) < std::abs(best - f)) best = d;
  return best;
}

void check_scaling(const Request& r) {
  if (r.scaling == "direct") return;
  if (r.micro_batches % r.depth != 0)
    refuse("micro_batches", r.micro_batches, "; scaling ", r.scaling, " needs a multiple of depth ",
           r.depth, ": use ", nearest_multiple(r.micro_batches, r.depth), ", or scaling direct");
  if (r.split_backward)
    refuse("scaling", r.scaling,
           " and split_backward is true; a split backward fills the "
           "bubbles that ",
           r.scaling, " removes: use scaling direct");
  if (r.scaling == "halving" && r.recompute)
    refuse("scaling",
           "halving and recompute is full; halving is doubling without recomputation: "
           "use recompute none, or scaling doubling");
}

void check(const Request& r) {
  if (r.depth % 2 != 0) {
    const std::string even = r.depth == 1 ? "2" : concat(r.depth - 1, " or ", r.depth + 1);
    refuse("depth", r.depth,
           "; chimera needs an even depth, since with an odd one both directions need the same "
           "worker at the same time: use ",
           even, ", or schedule ", serial_request().schedule);
  }
  if (r.pipeline_pairs < 1 || r.depth / 2 % r.pipeline_pairs != 0)
    refuse("pipeline_pairs", r.pipeline_pairs, "; it must divide depth / 2 = ", r.depth / 2,
           ": use ", nearest_divisor(r.depth / 2, r.pipeline_pairs));
  if (r.virtual_stages != 1)
    refuse("virtual_stages", r.virtual_stages,
           "; chimera has one stage per worker and pipe: use 1, or schedule ",
           schedules_with(&Traits::takes_virtual_stages));
  check_scaling(r);
  if (r.overlap_steps && !r.split_backward)
    refuse("overlap_steps", "true; steps of chimera overlap with split_backward true alone");
  if (r.overlap_steps && r.zero_stage != 0)
    refuse("zero_stage", r.zero_stage,
           " and overlap_steps is true; gathering the weights "
           "would stand in the way of the next step: use one of them");
}

ComputePlan make(const Request& r) {
  const int D = r.depth, N = r.micro_batches, f = r.pipeline_pairs;
  if (r.overlap_steps) return chimera_overlapped(r);
  if (r.split_backward) return chimera_split(r);
  if (r.scaling != "direct") return f == 1 ? chimera_doubling(D, N) : chimera_doubling_searched(r);
  return chimera_direct(D, N, f);
}

}  // namespace

extern const ScheduleInfo chimera_schedule = {
    .name = "chimera",
    .rule = "f pipelines down and f up over the same workers; even depth; D/f-2 bubbles at N = D",
    .reference = "Li and Hoefler, Chimera, SC 2021",
    .place = 40,
    .traits = {.bidirectional = true,
               .featured = true,
               .takes_pipeline_pairs = true,
               .takes_scaling = true,
               .takes_split_backward = true,
               .takes_overlap_steps = true},
    .check = check,
    .make = make};

}  // namespace chimera::schedule
