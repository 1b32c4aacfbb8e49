// What generators promise, beyond the figures: Table 2 of the paper and what follows from it, any
// N, and what is refused.
#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include "chimera/schedule/build.h"
#include "chimera/schedule/simulate.h"
#include "chimera/schedule/timing.h"
#include "support/support.h"

namespace chimera::schedule {
namespace {

using Numbers = std::vector<int>;

Numbers in_flight(const Request& request) {
  Numbers out;
  for (const WorkerReport& w : verify(build_schedule(request)).workers) out.push_back(w.in_flight);
  return out;
}
Numbers activation_buffers(const Request& request) {
  return build_schedule(request).activation_buffers;
}

// The weights on a worker, in copies of one stage.
Numbers weights(const Request& request) {
  const Schedule s = build_schedule(request);
  Numbers out(s.activation_buffers.size());
  for (const Group& group : s.groups)
    for (const Holder& h : group.holders)
      out[static_cast<std::size_t>(h.worker)] += s.versions[static_cast<std::size_t>(group.stage)];
  return out;
}

Numbers repeated(int D, int value) { return Numbers(static_cast<std::size_t>(D), value); }
Numbers falling(int D) {
  Numbers out;
  for (int w = 0; w < D; ++w) out.push_back(D - w);
  return out;
}

int idle(const Request& request, const Durations& durations) {
  const Timetable table = as_soon_as_possible(build_schedule(request), durations);
  const int busy = request.micro_batches * (durations.forward + durations.backward);
  for (const double each : table.idle) CHECK(each == table.makespan - busy);
  return table.makespan - busy;
}

std::map<int, int> micros_per_pipe(const Request& request) {
  std::map<int, int> out;
  for (const std::vector<Instr>& list : generate(request).workers)
    for (const Instr& in : list)
      if (in.op == Op::Forward && in.stage == 0) ++out[in.pipe];
  return out;
}

TEST_CASE("Table 2: micro-batches in flight, and weights, of the synchronous schemes") {
  for (int D = 1; D <= 12; ++D)
    for (const int N : {1, D, 3 * D}) {
      CAPTURE(D, N);
      const auto named = [&](const char* name) {
        return Request{.schedule = name, .depth = D, .micro_batches = N};
      };
      Numbers dapple = falling(D);
      for (int& each : dapple) each = std::min(each, N);
      CHECK(activation_buffers(named("1f1b")) == dapple);
      CHECK(activation_buffers(named("gpipe")) == repeated(D, N));
      CHECK(activation_buffers(named("gems")) == repeated(D, 1));
      CHECK(weights(named("1f1b")) == repeated(D, 1));
      CHECK(weights(named("gpipe")) == repeated(D, 1));
      CHECK(weights(named("gems")) == repeated(D, 2));
    }
  for (int D = 2; D <= 16; D += 2)
    for (int K = 1; K <= 3; ++K) {
      CAPTURE(D, K);
      Numbers expected;  // D/2+1 at the ends to D in the middle, whatever K
      for (int w = 0; w < D; ++w) expected.push_back(D / 2 + 1 + std::min(w, D - 1 - w));
      CHECK(activation_buffers({.depth = D, .micro_batches = K * D}) == expected);
      CHECK(weights({.depth = D, .micro_batches = K * D}) == repeated(D, 2));
    }
}

TEST_CASE("Table 3: [D - D/(2f) + 1, D] micro-batches in flight and 2f copies of weights") {
  for (const auto& [D, f] : {std::pair{8, 2}, {8, 4}, {16, 2}, {16, 4}, {12, 3}}) {
    CAPTURE(D, f);
    const Request request{.depth = D, .micro_batches = D, .pipeline_pairs = f};
    const auto [least, most] = std::ranges::minmax(activation_buffers(request));
    CHECK(least == D - D / (2 * f) + 1);
    CHECK(most == D);
    CHECK(weights(request) == repeated(D, 2 * f));
  }
}

TEST_CASE("Table 2: pipedream keeps as many versions as micro-batches in flight, 2BW two") {
  for (int D = 1; D <= 12; ++D) {
    CAPTURE(D);
    const Request pipedream{.schedule = "pipedream", .depth = D, .micro_batches = 1};
    CHECK(activation_buffers(pipedream) == falling(D));
    CHECK(weights(pipedream) == falling(D));
    for (const int N : {D, D + 1, 3 * D}) {
      CAPTURE(N);
      const Request twice{.schedule = "pipedream-2bw", .depth = D, .micro_batches = N};
      CHECK(activation_buffers(twice) == falling(D));
      CHECK(weights(twice) == repeated(D, 2));
    }
  }
}

TEST_CASE("pipedream's stage s lags by the D-1-s micro-batches that passed it and are not back") {
  for (const int D : {1, 2, 5}) {
    const ComputePlan plan = generate({.schedule = "pipedream", .depth = D, .micro_batches = 1});
    CHECK(plan.period == 2);
    for (const std::vector<Instr>& list : plan.workers)
      for (const Instr& in : list) CHECK(in.version == D - 1 - in.stage);
    const ComputePlan twice =
        generate({.schedule = "pipedream-2bw", .depth = D, .micro_batches = D + 2});
    CHECK(twice.period == 2 * (D + 2));
    for (const std::vector<Instr>& list : twice.workers)
      for (const Instr& in : list) CHECK(in.version == 1);
  }
}

TEST_CASE("Table 2: no bubble in steady state without a flush") {
  Costs costs;
  costs.forward = {1}, costs.backward_input = {0.75}, costs.backward_weight = {1.5};
  for (int D = 1; D <= 8; ++D)
    for (const int N : {1, D, 2 * D + 1}) {
      const char* name = N == 1 ? "pipedream" : "pipedream-2bw";
      CAPTURE(name, D, N);
      const Simulation s =
          simulate(build_schedule({.schedule = name, .depth = D, .micro_batches = N}), costs,
                   {.timeline = false});
      CHECK(s.step_seconds == Approx(3.25 * N).epsilon(1e-12));
      CHECK(s.bubble_ratio() == Approx(0).margin(1e-12));
    }
}

TEST_CASE("gems takes 2D+1 forwards per micro-batch: a bubble ratio of (D-1)/(D+1/2)") {
  // B = 2F. While one micro-batch returns over 2D units, the next follows it forward.
  for (int D = 1; D <= 12; ++D) {
    CAPTURE(D);
    for (const int N : {1, 2, 3, 8}) {
      const Request request{.schedule = "gems", .depth = D, .micro_batches = N};
      CHECK(idle(request, {1, 2}) == (2 * D + 1) * N + D - 1 - 3 * N);
    }
    const Request many{.schedule = "gems", .depth = D, .micro_batches = 256};
    const Timetable table = as_soon_as_possible(build_schedule(many), {1, 2});
    CHECK(table.bubble_ratio() == Approx((D - 1) / (D + 0.5)).margin(2e-3));
  }
}

TEST_CASE("doubling idles 1.5(D-2) for even K, 2.5(D-2) for odd, at B = 2F") {
  for (int D = 2; D <= 16; D += 2)
    for (int K = 1; K <= 6; ++K) {
      CAPTURE(D, K);
      const Request doubled{.depth = D, .micro_batches = K * D, .scaling = "doubling"};
      const int twice = K == 1 ? 4 : K % 2 == 0 ? 3 : 5;  // K = 1 is a plain unit
      CHECK(2 * idle(doubled, {1, 2}) == twice * (D - 2));
      // At B = 3F, as the paper counts recomputation: (K/2+1)(D-2).
      if (K % 2 == 0) CHECK(idle(doubled, {1, 3}) == (K / 2 + 1) * (D - 2));
      Request halved = doubled;
      halved.scaling = "halving";
      CHECK(generate(halved).workers == generate(doubled).workers);
    }
}

TEST_CASE("doubling holds 3D/2+1 to 2D micro-batches in flight, direct D/2+1 to D") {
  for (int D = 2; D <= 16; D += 2)
    for (int K = 2; K <= 5; ++K) {
      CAPTURE(D, K);
      const auto [least, most] = std::ranges::minmax(
          in_flight({.depth = D, .micro_batches = K * D, .scaling = "doubling"}));
      CHECK(least == 3 * D / 2 + 1);
      CHECK(most == 2 * D);
    }
}

// A worker's units of time: "F0", "." for idle; a forward of two micro-batches shows each once.
std::string row(const Timetable& table, std::size_t worker) {
  std::vector<std::string> units(static_cast<std::size_t>(table.makespan), ".");
  for (const Timetable::Cell& cell : table.workers[worker])
    for (int t = 0; t < cell.length; ++t)
      units[static_cast<std::size_t>(cell.start + t)] =
          concat(cell.instr.op == Op::Forward ? "F" : "B",
                 cell.instr.micro + t * cell.instr.count / cell.length);
  std::string out;
  for (const std::string& unit : units) out += (out.empty() ? "" : " ") + unit;
  return out;
}

TEST_CASE("doubling of D = 4, N = 8 draws the paper's Fig. 7(d): 27 units") {
  const Timetable table = as_soon_as_possible(
      build_schedule({.depth = 4, .micro_batches = 8, .scaling = "doubling"}), {1, 2});
  CHECK(table.makespan == 27);
  CHECK(row(table, 0) ==
        "F0 F1 F4 F5 F2 F3 B2 B2 F6 F7 B3 B3 . B0 B0 B6 B6 B1 B1 B7 B7 B4 B4 . . B5 B5");
  CHECK(row(table, 1) ==
        ". F0 F1 F2 F3 F4 F5 F6 F7 B2 B2 B0 B0 B3 B3 B1 B1 B6 B6 B4 B4 B7 B7 B5 B5 . .");
  CHECK(row(table, 2) ==
        ". F2 F3 F0 F1 F6 F7 F4 F5 B0 B0 B2 B2 B1 B1 B3 B3 B4 B4 B6 B6 B5 B5 B7 B7 . .");
  CHECK(row(table, 3) ==
        "F2 F3 F6 F7 F0 F1 B0 B0 F4 F5 B1 B1 . B2 B2 B4 B4 B3 B3 B5 B5 B6 B6 . . B7 B7");
}

TEST_CASE("doubling's forwards are pairs from the second unit on, backwards single") {
  const ComputePlan plan = generate({.depth = 4, .micro_batches = 20, .scaling = "doubling"});
  std::map<int, int> counts;  // forwards by their micro-batches
  for (const std::vector<Instr>& list : plan.workers)
    for (const Instr& in : list) {
      if (in.op == Op::Forward) ++counts[in.count];
      CHECK(in.count == (in.op == Op::Forward && in.micro >= 8 && in.micro < 16 ? 2 : 1));
    }
  CHECK(counts == std::map<int, int>{{1, 4 * 12}, {2, 4 * 4}});
}

TEST_CASE("direct concatenation of any N idles no more than its next whole unit") {
  for (const int D : {2, 4, 8, 12})
    for (int N = 1; N <= 3 * D; ++N) {
      CAPTURE(D, N);
      const int units = (N + D - 1) / D;
      const Timetable table = at_ticks(generate({.depth = D, .micro_batches = N}));
      CHECK(table.makespan <= 2 * units * D + D - 2);
      CHECK(table.makespan >= 2 * N);
    }
}

TEST_CASE("chimera splits any N as evenly as possible, and runs one micro-batch on one pipe") {
  using Counts = std::map<int, int>;
  CHECK(micros_per_pipe({.depth = 4, .micro_batches = 1}) == Counts{{0, 1}});
  CHECK(micros_per_pipe({.depth = 8, .micro_batches = 3}) == Counts{{0, 2}, {1, 1}});
  CHECK(micros_per_pipe({.depth = 8, .micro_batches = 13}) == Counts{{0, 4 + 3}, {1, 4 + 2}});
  // Pipes are down0, down1, up0, up1; the surplus goes to down0, up0, down1, up1 in turn.
  CHECK(micros_per_pipe({.depth = 8, .micro_batches = 2, .pipeline_pairs = 2}) ==
        Counts{{0, 1}, {2, 1}});
  CHECK(micros_per_pipe({.depth = 8, .micro_batches = 7, .pipeline_pairs = 2}) ==
        Counts{{0, 2}, {1, 2}, {2, 2}, {3, 1}});
  CHECK(micros_per_pipe({.schedule = "gems", .depth = 3, .micro_batches = 5}) ==
        Counts{{0, 3}, {1, 2}});
}

TEST_CASE("gradients of a (pipe, stage) are added in ascending micro-batch order everywhere") {
  for (const ScheduleInfo& info : known_schedules())
    for (const char* scaling : {"direct", "doubling"}) {
      const Request request{
          .schedule = info.name, .depth = 6, .micro_batches = 18, .scaling = scaling};
      if (!refusal(request).empty()) continue;
      for (const std::vector<Instr>& list : generate(request).workers) {
        std::map<std::pair<int, int>, int> last;
        for (const Instr& in : list) {
          if (in.op != Op::Backward && in.op != Op::BackwardWeight) continue;
          const auto [it, fresh] = last.try_emplace({in.pipe, in.stage}, in.micro);
          CHECK((fresh || it->second < in.micro));
          it->second = in.micro;
        }
      }
    }
}

TEST_CASE("a refusal names the member that it is about, where there is one") {
  CHECK(refusal({.depth = 4}).empty());
  CHECK(refusal({.depth = 5}).key == "depth");
  CHECK(refusal({.depth = 5}).text.starts_with("depth is 5; "));
  CHECK(refusal({.schedule = "1f1b", .pipeline_pairs = 2}).key == "pipeline_pairs");
  CHECK(refusal({.schedule = "pipedream", .micro_batches = 1, .tied = true}).key == "");
}

TEST_CASE("impossible requests are refused with the nearest valid choice") {
  const auto refused = [](const Request& request, const std::string& piece) {
    CAPTURE(request.schedule, request.depth, request.micro_batches, request.pipeline_pairs);
    CHECK_THROWS_AS(generate(request), UsageError);
    CHECK_THROWS_WITH(generate(request), Catch::Contains(piece));
    CHECK_THAT(refusal(request).text, Catch::Contains(piece));
  };
  refused({.schedule = "gems2"}, "'gems2' is unknown; choose one of " + schedule_names());
  refused({.depth = 5}, "use 4 or 6, or schedule 1f1b");
  refused({.depth = 1}, "use 2, or schedule 1f1b");
  refused({.depth = 0}, "depth is 0; it must be 1 to 1024");
  refused({.depth = -4}, "depth is -4");
  refused({.depth = 2'000'000'000}, "it must be 1 to 1024");
  refused({.micro_batches = 0}, "micro_batches is 0; it must be at least 1");
  refused({.micro_batches = 2'000'000'000}, "use at most 65536 micro-batches per step");
  refused({.depth = 12, .pipeline_pairs = 4}, "it must divide depth / 2 = 6: use 3");
  refused({.depth = 8, .pipeline_pairs = 0}, "it must divide depth / 2 = 4: use 1");
  refused({.depth = 8, .pipeline_pairs = 100}, "use 4");
  refused({.schedule = "1f1b", .pipeline_pairs = 2}, "use 1, or schedule chimera");
  refused({.width = 0}, "width is 0");
  refused({.scaling = "tripling"}, "choose one of direct, doubling, halving");
  refused({.gradient_sync = "late"}, "choose one of lazy, eager, eager-opt");
  refused({.zero_stage = 2}, "zero_stage is 2; it must be 0, or 1");
}

TEST_CASE("combinations that no schedule can run are refused with one that can") {
  const auto refused = [](const Request& request, const std::string& piece) {
    CAPTURE(request.schedule);
    CHECK_THROWS_AS(generate(request), UsageError);
    CHECK_THROWS_WITH(generate(request), Catch::Contains(piece));
  };
  refused({.depth = 4, .micro_batches = 6, .scaling = "doubling"},
          "needs a multiple of depth 4: use 8, or scaling direct");
  refused({.schedule = "gpipe", .scaling = "halving"}, "use direct, or schedule chimera");
  refused({.scaling = "halving", .recompute = true}, "use recompute none, or scaling doubling");
  refused({.scaling = "doubling", .split_backward = true}, "use scaling direct");
  refused({.schedule = "gems", .split_backward = true}, "schedule chimera or zb-h1");
  refused({.overlap_steps = true}, "with split_backward true alone");
  refused({.schedule = "1f1b", .overlap_steps = true}, "schedule chimera with split_backward");
  refused({.split_backward = true, .overlap_steps = true, .zero_stage = 1}, "use one of them");
  refused({.schedule = "pipedream", .micro_batches = 4}, "use 1, or schedule pipedream-2bw");
  refused({.schedule = "pipedream", .micro_batches = 1, .tied = true},
          "use tied_embeddings false, or schedule pipedream-2bw");
  refused({.schedule = "pipedream", .micro_batches = 1, .zero_stage = 1},
          "use 0, or a synchronous");
  refused({.schedule = "pipedream-2bw", .depth = 4, .micro_batches = 3},
          "at least depth micro-batches per update: use 4");
  refused({.virtual_stages = 2}, "use 1, or schedule interleaved");
  refused({.schedule = "1f1b", .virtual_stages = 2}, "use 1, or schedule interleaved");
}

TEST_CASE(
    "evaluation runs every micro-batch once on every stage, with two boundary buffers at most") {
  for (const Request& request :
       {Request{.depth = 4, .micro_batches = 4},
        Request{.depth = 8, .micro_batches = 5, .pipeline_pairs = 2},
        Request{.schedule = "1f1b", .depth = 3, .micro_batches = 2},
        Request{.schedule = "gpipe", .depth = 1, .micro_batches = 2},
        Request{.schedule = "pipedream", .depth = 3, .micro_batches = 1}}) {
    const Schedule training = build_schedule(request);
    for (const int N : {1, 2, 7, 32}) {
      CAPTURE(request.schedule, request.depth, N);
      const Schedule s = build_evaluation(training, N);
      int forwards = 0, others = 0;
      for (const Program& p : s.programs)
        for (const Instr& in : p.body) {
          forwards += in.op == Op::Forward;
          others += in.op != Op::Forward && is_compute(in.op);
        }
      CHECK(forwards == N * request.depth);
      CHECK(others == 0);
      CHECK(s.period == 0);
      CHECK(s.placement == training.placement);
      for (std::size_t w = 0; w < s.activation_buffers.size(); ++w) {
        CAPTURE(w);
        CHECK(s.activation_buffers[w] <= 1);  // a forward gives back what backward would need
        CHECK(s.boundary_buffers[w] <= 3);    // received, computed, sent
      }
    }
  }
  CHECK_THROWS_AS(build_evaluation(build_schedule({}), 0), UsageError);
}

TEST_CASE("every known schedule has a rule and a reference, and can be generated") {
  std::set<std::string> names;
  for (const ScheduleInfo& info : known_schedules()) {
    CHECK(names.insert(info.name).second);
    CHECK(std::string(info.rule).size() > 10);
    CHECK(std::string(info.reference).size() > 5);
    const Request one{.schedule = info.name, .micro_batches = 1};
    Request request = one;
    if (!refusal(request).empty()) request.micro_batches = request.depth;
    CHECK(generate(request).name == info.name);
  }
}

}  // namespace
}  // namespace chimera::schedule
