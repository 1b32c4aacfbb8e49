// Simulated times against the closed formulas, which appear here alone. F, B: one micro-batch's
// forward and whole backward; m: one message; R: one reduction.
#include <cmath>
#include <random>

#include "chimera/schedule/build.h"
#include "chimera/schedule/simulate.h"
#include "support/support.h"

namespace chimera::schedule {
namespace {

Costs times(double F, double B) {
  Costs costs;
  costs.forward = {F};
  costs.backward_input = costs.backward_weight = {B / 2};
  return costs;
}

// Messages of m seconds that are on their way as soon as they are made.
Costs with_messages(Costs costs, double m) {
  costs.message_bytes = 1;
  costs.inter_node = {.latency = 0, .seconds_per_byte = m};
  costs.rendezvous = false;
  return costs;
}

// Reductions that take R over r members.
Costs with_reductions(Costs costs, double R, int r) {
  costs.gradient_bytes = {1};
  costs.reduction_inter_node.seconds_per_byte = R * r / (2.0 * (r - 1));
  return costs;
}

double makespan(const Request& request, const Costs& costs) {
  return simulate(build_schedule(request), costs, {.causes = false, .timeline = false}).makespan;
}

// What is used up after sums of a thousand terms of doubles.
Approx near(double value) { return Approx(value).epsilon(1e-12).margin(1e-12); }

// One of every kind that this library makes, as D and N allow.
std::vector<Request> one_of_each() {
  std::vector<Request> out;
  for (const ScheduleInfo& info : known_schedules())
    for (const int D : {2, 4, 6}) {
      Request r{.schedule = info.name, .depth = D, .micro_batches = 2 * D};
      if (r.schedule == "interleaved") r.virtual_stages = 2;
      if (!refusal(r).empty()) r.micro_batches = 1;
      out.push_back(r);
      if (r.schedule != "chimera") continue;
      r.scaling = "doubling";
      r.recompute = true;
      out.push_back(r);
      r.recompute = false;
      r.scaling = "direct";
      r.split_backward = true;
      out.push_back(r);
      r.overlap_steps = true;
      out.push_back(r);
    }
  return out;
}

TEST_CASE("simulated gpipe and 1f1b take (N+D-1)(F+B)") {
  for (const char* name : {"gpipe", "1f1b"})
    for (int D = 1; D <= 9; ++D)
      for (const int N : {1, D, 2 * D + 1}) {
        CAPTURE(name, D, N);
        const Request request{.schedule = name, .depth = D, .micro_batches = N};
        CHECK(makespan(request, times(1.25, 2.5)) == near((N + D - 1) * 3.75));
      }
}

TEST_CASE("simulated chimera idles (D/f-2)(F+K(B-F)) under direct concatenation") {
  for (const double B : {1.0, 2.0, 2.5, 3.0})
    for (const int D : {2, 4, 8, 12})
      for (const int f : {1, 2})
        for (int K = 1; K <= 4; ++K) {
          if (D / 2 % f != 0) continue;
          CAPTURE(B, D, f, K);
          const Request request{.depth = D, .micro_batches = K * D, .pipeline_pairs = f};
          CHECK(makespan(request, times(1, B)) - K * D * (1 + B) ==
                near((D / f - 2) * (1 + K * (B - 1))));
        }
}

TEST_CASE("simulated doubling idles 1.5(D-2) for even K, 2.5(D-2) for odd K, at B = 2F") {
  for (const int D : {4, 8, 12})
    for (int K = 2; K <= 5; ++K) {
      CAPTURE(D, K);
      const Request request{.depth = D, .micro_batches = K * D, .scaling = "doubling"};
      CHECK(makespan(request, times(1, 2)) - 3 * K * D == near((K % 2 == 0 ? 1.5 : 2.5) * (D - 2)));
    }
}

TEST_CASE("schedules without a flush reach a steady step of N(F+B) with no bubble") {
  for (const int D : {1, 2, 4}) {
    const Request pipedream{.schedule = "pipedream", .depth = D, .micro_batches = 1};
    const Request twice{.schedule = "pipedream-2bw", .depth = D, .micro_batches = 2 * D};
    for (const Request& request : {pipedream, twice}) {
      CAPTURE(request.schedule, D);
      const Simulation s = simulate(build_schedule(request), times(1, 2));
      CHECK(s.step_seconds == near(3.0 * request.micro_batches));
      CHECK(s.bubble_ratio() == near(0));
      CHECK(s.makespan > s.steps * s.step_seconds - 1e-9);  // it fills and drains once
    }
  }
}

TEST_CASE("2D-2 of gpipe's messages cost time when sends overlap, 2N when they block, at D = 2") {
  for (const int D : {2, 4, 7})
    for (const int N : {1, 4, 16}) {
      const Request request{.schedule = "gpipe", .depth = D, .micro_batches = N};
      CAPTURE(D, N);
      CHECK(makespan(request, with_messages(times(1, 2), 0.25)) ==
            near(3 * (N + D - 1) + (2 * D - 2) * 0.25));
      if (D > 2) continue;
      // Each forward and each backward then ends with its message.
      Costs blocking = with_messages(times(1, 2), 0.25);
      blocking.blocking_sends = true;
      CHECK(makespan(request, blocking) == near(3 * (N + 1) + 2 * N * 0.25));
    }
}

TEST_CASE("a receiver that asks late gets its message late") {
  // Without buffering a message moves once its receiver has done what it computes in the same tick:
  // each of gpipe's N forwards and N backwards then waits for one, at each of D-1 stages for the
  // first.
  for (const int D : {2, 4, 8})
    for (const int N : {1, 4, 16}) {
      CAPTURE(D, N);
      Costs costs = with_messages(times(1, 2), 0.25);
      costs.rendezvous = true;
      CHECK(makespan({.schedule = "gpipe", .depth = D, .micro_batches = N}, costs) ==
            near(3 * (N + D - 1) + 2 * (N + D - 2) * 0.25));
    }
}

TEST_CASE(
    "Eq. 1 bounds chimera: of C_f + C_b = 3D-2 computations on the path, 3D-5 wait for a message") {
  // The 3D-2 computations have 3D-3 transitions; two of them (last stage's forward to its backward,
  // once per direction of the path) stay on their worker.
  for (const int D : {4, 6, 8, 16}) {
    CAPTURE(D);
    const Simulation s = simulate(build_schedule({.depth = D, .micro_batches = D}),
                                  with_messages(times(1, 2), 0.125));
    CHECK(s.makespan == near(D + 2 * (2 * D - 2) + (3 * D - 5) * 0.125));
    CHECK(s.messages == near((3 * D - 5) * 0.125));
    CHECK(s.makespan < (1 + 0.125) * D + (2 + 0.125) * (2 * D - 2));  // Eq. 1
  }
}

TEST_CASE("a reduction takes 2 log2(r) latency + 2 (r-1)/r bytes / bandwidth") {
  CHECK(all_reduce_seconds({1e-3, 1e-6}, 1e4, 8) == near(2 * 3 * 1e-3 + 2 * 7 / 8.0 * 1e-2));
  CHECK(all_reduce_seconds({1e-3, 1e-6}, 1e4, 1) == 0);
  Costs costs = times(1, 2);
  costs.gradient_bytes = {1e4};
  costs.reduction_inter_node = {1e-3, 1e-6};
  // The first stage is the last to finish: its reduction is not hidden.
  CHECK(makespan({.schedule = "1f1b", .depth = 4, .micro_batches = 4, .width = 8}, costs) ==
        near(21 + 2 * 3 * 1e-3 + 2 * 7 / 8.0 * 1e-2));
  CHECK(makespan({.schedule = "1f1b", .depth = 4, .micro_batches = 4}, costs) == near(21));
}

// D = N = 4, B = 2F (the figure of the paper's section 2): workers 0 and 3 have stage 3's gradients
// at 9 and compute to 16; 1 and 2 have stage 2's at 12 and compute to 14.
TEST_CASE("lazy, eager and eager-opt reductions hide what their windows allow") {
  for (const double R : {0.5, 2.0, 5.0, 7.0, 10.0}) {
    CAPTURE(R);
    const auto at = [&](const char* sync) {
      return makespan({.depth = 4, .micro_batches = 4, .gradient_sync = sync},
                      with_reductions(times(1, 2), R, 2));
    };
    const double outer = std::max(16.0, 9 + R) + R;  // stage 3, then stage 0
    CHECK(at("lazy") == near(16 + 2 * R));
    CHECK(at("eager") == near(std::max(outer, std::max(14.0, 12 + R) + R)));
    CHECK(at("eager-opt") == near(std::max(outer, 14 + 2 * R)));
  }
}

TEST_CASE("a reduction in the background slows its workers by the contention") {
  // D = N = 2: both workers have stage 1's gradients at 4 and stage 0's last backward from 4 to 6.
  const Request request{.depth = 2, .micro_batches = 2, .gradient_sync = "eager"};
  Costs costs = with_reductions(times(1, 2), 1, 2);
  CHECK(makespan(request, costs) == near(6 + 1));
  costs.contention = 0.5;  // the backward loses half of the reduction's second
  CHECK(makespan(request, costs) == near(6.5 + 1));
  costs = with_reductions(times(1, 2), 10, 2);
  costs.contention = 0.5;  // 2 seconds at half speed; the next reduction begins at 14
  const Simulation s = simulate(build_schedule(request), costs);
  CHECK(s.makespan == near(24));
  const auto last = std::ranges::find(s.workers[0].cells, Op::Backward,
                                      [](const Occupied& o) { return o.instr.op; }) +
                    1;
  CHECK(to_string(last->instr) == "t03 B p0 s0 m0");
  CHECK(last->end == near(8));
  CHECK(s.reductions == near(24 - 6));
  costs.reductions_inline = true;  // 4 to 14, then the backward alone, then stage 0's
  CHECK(makespan(request, costs) == near(4 + 10 + 2 + 10));
}

TEST_CASE("sharded reductions and updates: half before, half after, an r-th of the update") {
  Costs costs = with_reductions(times(1, 2), 3, 4);
  costs.update = {2};
  costs.step_sync = 0.25;
  const Request request{.schedule = "1f1b", .depth = 2, .micro_batches = 2, .width = 4};
  CHECK(makespan(request, costs) == near(9 + 3 + 0.25 + 2));
  Request sharded = request;
  sharded.zero_stage = 1;
  CHECK(makespan(sharded, costs) == near(9 + 1.5 + 0.25 + 2 / 4.0 + 1.5));
  // A latency of 1: log2(4) for each half, and the norm's way along the 4 holders of a shard.
  costs.reduction_inter_node.latency = costs.reduction_intra_node.latency = 1;
  CHECK(makespan(sharded, costs) == near(9 + 1.5 + 2 + 3 + 0.25 + 2 / 4.0 + 1.5 + 2));
}

TEST_CASE("messages within a node and between nodes have their own costs") {
  Costs costs = times(1, 2);
  costs.rendezvous = false;
  costs.inter_node.latency = 1;
  costs.intra_node.latency = 0.125;
  costs.workers_per_node = 2;
  // One micro-batch passes each of D-1 links twice; of 0|1 1|2 2|3 the middle one crosses.
  CHECK(makespan({.schedule = "1f1b", .depth = 4, .micro_batches = 1}, costs) ==
        near(12 + 2 * (1 + 2 * 0.125)));
  // Two replicas of 3 on nodes of 2: ranks 01 23 45. Both links cross a node in one of them.
  CHECK(makespan({.schedule = "1f1b", .depth = 3, .micro_batches = 1, .width = 2}, costs) ==
        near(9 + 2 * 2));
  costs.workers_per_node = 0;  // one node
  CHECK(makespan({.schedule = "1f1b", .depth = 4, .micro_batches = 1}, costs) ==
        near(12 + 6 * 0.125));
}

TEST_CASE("a worker's step is its work, its bubbles, messages and reductions") {
  std::mt19937 random(5);
  const auto some = [&](double most) {
    return most * static_cast<double>(random() % 1000 + 1) / 1000;
  };
  for (const Request& request : one_of_each()) {
    CAPTURE(request.schedule, request.depth, request.scaling, request.overlap_steps);
    const Schedule schedule = build_schedule(request);
    Costs costs;
    for (auto* list : {&costs.forward, &costs.backward_input, &costs.backward_weight, &costs.update,
                       &costs.gradient_bytes}) {
      list->clear();
      for (int s = 0; s < schedule.stages(); ++s) list->push_back(some(1));
    }
    costs.message_bytes = 1;
    costs.inter_node = {some(0.1), some(0.3)};
    costs.reduction_inter_node = {some(0.1), some(0.5)};
    costs.step_sync = some(0.2);
    const Simulation s = simulate(schedule, costs);
    for (const WorkerTimes& w : s.workers) {
      CHECK(w.busy + w.idle() + s.messages + s.reductions == near(s.step_seconds));
      CHECK(w.startup >= 0);
      CHECK(w.middle >= -1e-9);
      CHECK(w.tail >= 0);
    }
    CHECK(s.messages >= -1e-9);
    CHECK(s.reductions >= -1e-9);
  }
}

TEST_CASE("bubbles of the paper's D = 4 figure by place") {
  // Rows of tests/schedule/diagrams.txt, B = 2F: P0 idles 1 + 1 + 2 between computations, P1 waits
  // 1 for its first, 1 between, 2 after its last.
  const Simulation s = simulate(build_schedule({.depth = 4, .micro_batches = 4}), times(1, 2));
  for (const std::size_t w : {0, 3}) {
    CHECK(s.workers[w].startup == near(0));
    CHECK(s.workers[w].middle == near(4));
    CHECK(s.workers[w].tail == near(0));
  }
  for (const std::size_t w : {1, 2}) {
    CHECK(s.workers[w].startup == near(1));
    CHECK(s.workers[w].middle == near(1));
    CHECK(s.workers[w].tail == near(2));
  }
  CHECK(s.bubble_ratio() == near(0.25));
}

TEST_CASE("memory in use over time peaks at the pools and ends empty") {
  for (const Request& request : one_of_each()) {
    CAPTURE(request.schedule, request.depth, request.scaling, request.overlap_steps);
    const Schedule schedule = build_schedule(request);
    const Simulation s = simulate(schedule, with_messages(times(1, 2), 0.3));
    for (std::size_t w = 0; w < s.workers.size(); ++w) {
      const std::vector<BuffersInUse>& memory = s.workers[w].memory;
      CHECK(s.workers[w].activation_buffers == schedule.activation_buffers[w]);
      CHECK(s.workers[w].boundary_buffers == schedule.boundary_buffers[w]);
      REQUIRE(!memory.empty());
      CHECK(memory.back().activations == 0);
      CHECK(memory.back().boundary == 0);
      CHECK(std::ranges::is_sorted(memory, {}, &BuffersInUse::time));
    }
  }
}

TEST_CASE("W replicas cost no more to simulate than one, and wait only in reductions") {
  const Costs costs = with_reductions(times(1, 2), 1, 2 * 3125);
  const Request request{.depth = 32, .micro_batches = 32, .width = 3125};  // 100,000 workers
  CHECK(makespan(request, costs) == near(32 + 2 * 62 + 2 * 1));
}

TEST_CASE("programs that wait for each other are refused by worker and instruction") {
  Schedule s = build_schedule({.schedule = "1f1b", .depth = 2, .micro_batches = 2});
  std::erase_if(s.programs[0].body, [](const Instr& in) { return in.op == Op::SendStart; });
  CHECK_THROWS_WITH(simulate(s, {}), Catch::Contains("worker 0 waits for ever at body[") &&
                                         Catch::Contains("SendWait p0 s0 m0 activation w1"));
}

TEST_CASE("costs that cannot be are refused by name") {
  const Schedule s = build_schedule({.depth = 4, .micro_batches = 4});
  const auto refused = [&](const auto& change, const std::string& piece) {
    Costs costs;
    change(costs);
    CHECK_THROWS_AS(simulate(s, costs), UsageError);
    CHECK_THROWS_WITH(simulate(s, costs), Catch::Contains(piece));
  };
  refused([](Costs& c) { c.forward = {1, 2, 3}; }, "cost forward has 3 numbers");
  refused([](Costs& c) { c.forward = {}; }, "cost forward has 0 numbers");
  refused([](Costs& c) { c.backward_weight = {-1}; }, "cost backward_weight is -1");
  refused([](Costs& c) { c.message_bytes = NAN; }, "cost message_bytes is nan");
  refused([](Costs& c) { c.inter_node.latency = INFINITY; }, "cost inter_node.latency is inf");
  refused([](Costs& c) { c.contention = 1; }, "cost contention is 1");
  refused([](Costs& c) { c.workers_per_node = -2; }, "cost workers_per_node is -2");
  CHECK_THROWS_WITH(simulate(s, {}, {.steps = -1}), Catch::Contains("-1 steps"));
  CHECK_THROWS_WITH(simulate(s, {}, {.steps = 2'000'000'000}), Catch::Contains("fewer steps"));
}

}  // namespace
}  // namespace chimera::schedule
