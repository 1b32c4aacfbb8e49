// Interleaved 1F1B: the order by hand, and Narayanan et al.'s numbers (SC 2021, section 2.2) as
// formulas.
#include "../../src/schedule/generate/generators.h"
#include "chimera/schedule/build.h"
#include "chimera/schedule/timing.h"
#include "replay.h"
#include "support/support.h"

namespace chimera::schedule {
namespace {

Request interleaved(int D, int N, int v) {
  return {.schedule = "interleaved", .depth = D, .micro_batches = N, .virtual_stages = v};
}

// Calls `check` for every D to 8 and v to 4, with one to three groups of micro-batches.
template <class Check>
void for_each_size(const Check& check) {
  for (int D = 2; D <= 8; ++D)
    for (int v = 1; v <= 4; ++v)
      for (int groups = 1; groups <= 3; ++groups) {
        CAPTURE(D, v, groups);
        check(D, groups * D, v);
      }
}

// One line per worker, a column per tick: F2b is the forward of micro-batch 2 on the worker's
// second stage.
std::string grid(const ComputePlan& plan) {
  std::string out;
  for (const std::vector<Instr>& list : plan.workers) {
    int tick = 0;
    for (const Instr& in : list) {
      for (; tick < in.tick; ++tick) out += " .  ";
      out += concat(in.op == Op::Forward ? 'F' : 'B', in.micro, "abcd"[in.stage / plan.depth]);
      out += ' ';
      ++tick;
    }
    out.back() = '\n';
  }
  return out;
}

// Without ticks.
std::vector<std::string> order(const ComputePlan& plan) {
  std::vector<std::string> out;
  for (const std::vector<Instr>& list : plan.workers)
    for (Instr in : list) {
      in.tick = 0;
      out.push_back(to_string(in));
    }
  return out;
}

TEST_CASE("interleaved: two workers with two stages each, cell for cell") {
  // By hand: worker 0 has 2 (D-1) + D = 4 warm-up forwards, worker 1 has D = 2.
  CHECK(grid(generate(interleaved(2, 4, 2))) ==
        "F0a F1a F0b F1b F2a B0b F3a B1b F2b B0a F3b B1a  .  B2b  .  B3b B2a B3a\n"
        " .  F0a F1a F0b B0b F1b B1b F2a B0a F3a B1a F2b B2b F3b B3b B2a B3a\n");
}

TEST_CASE("interleaved idles (D-1)(F+B)/v per worker") {
  for_each_size([](int D, int N, int v) {
    const ComputePlan plan = generate(interleaved(D, N, v));
    // In units of one stage's forward, which is F / v of the worker's.
    const auto idle = [&](int backward) {
      return std::vector<double>(static_cast<std::size_t>(D), (D - 1) * (1 + backward));
    };
    CHECK(at_ticks(plan).idle == idle(1));
    CHECK(as_soon_as_possible(plan, {.forward = 1, .backward = 1}).idle == idle(1));
    CHECK(as_soon_as_possible(plan, {.forward = 1, .backward = 2}).idle == idle(2));
  });
}

TEST_CASE("interleaved holds its warm-up and one micro-batch more, and is proved") {
  for_each_size([](int D, int N, int v) {
    Request r = interleaved(D, N, v);
    r.tied = N / D % 2 == 0;
    r.width = 1 + v % 2;
    CHECK(replay(generate(r), r).faults.empty());
    const Schedule s = build_schedule(r);
    const VerifyReport report = verify(s);
    for (int w = 0; w < D; ++w) {
      const int warm_up = v == 1 ? D - 1 - w : 2 * (D - 1 - w) + (v - 1) * D;
      CHECK(report.workers[static_cast<std::size_t>(w)].in_flight == std::min(warm_up + 1, v * N));
    }
    CHECK(build_evaluation(s, N + 1).stages() == v * D);
  });
}

TEST_CASE("interleaved with one stage per worker is 1f1b") {
  for (int D = 1; D <= 8; ++D)
    for (int groups = 1; groups <= 3; ++groups) {
      CAPTURE(D, groups);
      CHECK(order(generate(interleaved(D, groups * D, 1))) == order(one_f_one_b(D, groups * D)));
    }
}

TEST_CASE("interleaved is refused where stages times micro-batches are over 2^18") {
  CHECK(refusal(interleaved(2, 512, 256)).empty());
  CHECK_THAT(refusal(interleaved(2, 1024, 256)).text,
             Catch::Contains("virtual_stages is 256; it must be "
                             "1 to 128 at depth 2 with 1024"));
}

TEST_CASE("orders that wait for each other get no ticks") {
  ComputePlan plan = one_f_one_b(2, 2);
  std::swap(plan.workers[1][0], plan.workers[1][1]);  // the backward before the forward
  CHECK_THROWS_WITH(with_ticks(plan), Catch::Contains("1f1b: at tick 2 every worker waits"));
}

}  // namespace
}  // namespace chimera::schedule
