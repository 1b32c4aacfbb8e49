// The split backward: bounds as formulas, and every plan played by an independent checker.
#include "../../src/schedule/search/chimera_search.h"
#include "replay.h"
#include "support/support.h"

namespace chimera::schedule {
namespace {

Request request(int D, int N, int f = 1) {
  return {.depth = D, .micro_batches = N, .pipeline_pairs = f, .split_backward = true};
}

void set_times(Request& r, double forward, double input, double weight) {
  const std::size_t D = static_cast<std::size_t>(r.depth);
  r.times.forward.assign(D, forward), r.times.input.assign(D, input);
  r.times.weight.assign(D, weight);
}

// Stage times as a model has them: embedding and head weigh more, nothing is a round number.
void set_uneven_times(Request& r) {
  set_times(r, 1.07, 1.31, 0.88);
  r.times.forward.front() += 0.11, r.times.weight.front() += 0.23;
  r.times.forward.back() += 0.37, r.times.input.back() += 0.41, r.times.weight.back() += 0.3;
  r.times.message = 0.06, r.times.update = 0.4;
}

ComputePlan zb_h1(Request r) {
  r.schedule = "zb-h1";
  return generate(r);
}

TEST_CASE("ZB-H1 idles D - 1 units and holds at most D micro-batches") {
  for (int D : {1, 2, 3, 4, 7, 8, 16})
    for (int N : {1, 2, D - 1, D, D + 1, 2 * D, 3 * D + 2}) {
      if (N < 1) continue;
      CAPTURE(D, N);
      const Request r = request(D, N);
      const Replay played = replay(zb_h1(r), r);
      CHECK(played.faults.empty());
      CHECK(played.buffers <= D);
      // F, B, W per micro-batch, and the last stage starts D - 1 late; fewer micro-batches than
      // stages cannot be shorter than one's way there and back and the others' one behind another.
      if (N >= D) CHECK(played.makespan == 3 * N + D - 1);
      CHECK(played.makespan >= 2 * D + N);
    }
}

TEST_CASE("split Chimera with a barrier: 3N + D/(2f) - 1 units with D buffers") {
  for (int D : {2, 4, 6, 8, 12, 16})
    for (int f = 1; f <= D / 2; ++f) {
      if (D / 2 % f != 0) continue;
      for (int K : {1, 2, 3, 4, 8}) {
        const int N = K * D;
        CAPTURE(D, f, N);
        const Request r = request(D, N, f);
        const Replay played = replay(chimera_split(r), r);
        CHECK(played.faults.empty());
        CHECK(played.buffers <= D);
        // The first micro-batch reaches the last of D/f neighbouring workers after D/(2f) - 1.
        CHECK(played.makespan == 3 * N + D / (2 * f) - 1);
      }
    }
}

TEST_CASE("split Chimera with a barrier takes any N, any times") {
  for (int D : {2, 4, 8, 12})
    for (int f : {1, 2, 3})
      for (int N = 1; N <= 2 * D + 1; N += 1 + N / 5) {
        if (D / 2 % f != 0) continue;
        CAPTURE(D, f, N);
        Request r = request(D, N, f);
        CHECK(replay(chimera_split(r), r).faults.empty());
        set_uneven_times(r);
        const Replay played = replay(chimera_split(r), r);
        CHECK(played.faults.empty());
        CHECK(played.buffers <= D);
      }
}

TEST_CASE("overlapping steps: no idle time, D buffers, for every D and f") {
  for (int D = 2; D <= 32; D += D < 8 ? 2 : 8)
    for (int f = 1; f <= D / 2; ++f)
      for (int K : {1, 2, 3})
        for (int R : {0, D - D / f + 1}) {  // W of stage s end by s + 2D + D/f - 1 of s + 3D
          if (D / 2 % f != 0 || K * D > 64) continue;
          CAPTURE(D, f, K, R);
          Request r = request(D, K * D, f);
          r.times.update = R;
          const ComputePlan plan = chimera_overlapped(r);
          CHECK(plan.period == 3 * K * D);
          const Replay played = replay(plan, r, 4);
          CHECK(played.faults.empty());
          CHECK(played.buffers <= D);
          CHECK(played.per_step <= 3 * K * D);
        }
}

struct Case {
  int D, N;
  double R;
  bool tied;
  int buffers;  // limit; 0: none
  int idle;     // units that are reached
};

// Where a general solver found them possible (tied N = D and R = 2 at N = D: found impossible).
TEST_CASE("overlapping steps: longer updates and tied embeddings without idle time") {
  for (const Case& c : {Case{4, 8, 2, false, 0, 0},
                        {8, 16, 2, false, 0, 0},
                        {4, 8, 0, true, 4, 0},
                        {8, 16, 0, true, 10, 0},
                        {4, 4, 2, false, 4, 1},
                        {4, 4, 0, true, 4, 1}}) {
    CAPTURE(c.D, c.N, c.R, c.tied, c.buffers);
    Request r = request(c.D, c.N);
    r.times.update = c.R, r.tied = c.tied;
    const ComputePlan plan = chimera_overlapped(r, c.buffers);
    CHECK(plan.period == 3 * c.N + c.idle);
    const Replay played = replay(plan, r, 6);
    CHECK(played.faults.empty());
    CHECK(played.per_step <= 3 * c.N + c.idle);
    if (c.buffers > 0) CHECK(played.buffers <= c.buffers);
  }
}

TEST_CASE("overlapping steps with F, B, W = 10, 11, 9") {
  // Priorities alone idle 2.4 F per step with 10 buffers.
  Request r = request(8, 16);
  set_times(r, 10, 11, 9);
  const Replay ten = replay(chimera_overlapped(r, 10), r, 12);
  CHECK(ten.faults.empty());
  CHECK(ten.buffers <= 10);
  CHECK(ten.per_step - 480 < 12);
  const Replay any = replay(chimera_overlapped(r), r, 12);
  CHECK(any.faults.empty());
  CHECK(any.per_step - 480 < 0.5);
}

TEST_CASE("overlapping steps take any N, any times, tied or not") {
  constexpr Index kLittle = Index{1} << 22;
  for (int D : {2, 4, 8})
    for (int f : {1, 2})
      for (int N : {1, 2, 3, D, D + 1, D + 4, 2 * D - 1})
        for (bool tied : {false, true}) {
          if (D / 2 % f != 0) continue;
          CAPTURE(D, f, N, tied);
          Request r = request(D, N, f);
          r.tied = tied, r.recompute = N == D;
          CHECK(replay(chimera_overlapped(r, 0, kLittle), r, 5).faults.empty());
          set_uneven_times(r);
          const Replay played = replay(chimera_overlapped(r, 0, kLittle), r, 5);
          CHECK(played.faults.empty());
          // Never worse than a barrier with the update behind it.
          const double barrier = replay(chimera_split(r), r).makespan + r.times.update;
          CHECK(played.per_step <= barrier + 1e-9);
        }
}

TEST_CASE("a buffer limit is kept, and searches repeat themselves") {
  for (int buffers : {5, 6, 7}) {
    Request r = request(8, 16);
    set_uneven_times(r);
    const ComputePlan plan = chimera_overlapped(r, buffers, Index{1} << 24);
    CHECK(replay(plan, r, 4).buffers <= buffers);
    const ComputePlan again = chimera_overlapped(r, buffers, Index{1} << 24);
    CHECK(again.period == plan.period);
    CHECK(again.workers == plan.workers);
  }
}

TEST_CASE("doubling with more pipelines") {
  for (int D : {4, 8, 12, 16})
    for (int f : {1, 2, 3, 4})
      for (int K : {1, 2, 3, 4}) {
        if (D / 2 % f != 0) continue;
        CAPTURE(D, f, K);
        Request r = {
            .depth = D, .micro_batches = K * D, .pipeline_pairs = f, .scaling = "doubling"};
        const Replay played = replay(chimera_doubling_searched(r), r);
        CHECK(played.faults.empty());
        CHECK(played.buffers <= 2 * D);
        // B = 2F: direct concatenation idles (K + 1)(D/f - 2) units, doubling at most 2(D/f - 2)
        // and no more where the start-up's half is not saved.
        CHECK(played.makespan - 3 * K * D <= 2.5 * (D / f - 2));
      }
}

TEST_CASE("times that are no times are refused by name") {
  Request r = request(4, 4);
  r.times.weight = {1, 1, -1, 1};
  CHECK_THROWS_WITH(chimera_split(r), Catch::Contains("times.weight") && Catch::Contains("-1"));
  r.times.weight = {1, 1};
  CHECK_THROWS_WITH(chimera_overlapped(r), Catch::Contains("one per stage, 4"));
  r.times.weight.clear();
  r.times.message = std::numeric_limits<double>::infinity();
  CHECK_THROWS_WITH(zb_h1(r), Catch::Contains("times.message"));
}

}  // namespace
}  // namespace chimera::schedule
