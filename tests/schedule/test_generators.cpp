// What generators promise, beyond the figures.
#include <algorithm>
#include <map>
#include <set>

#include "chimera/schedule/build.h"
#include "chimera/schedule/sweep.h"
#include "support/support.h"

namespace chimera::schedule {
namespace {

std::vector<int> in_flight(const Request& request) {
  std::vector<int> out;
  for (const WorkerReport& w : verify(build_schedule(request)).workers) out.push_back(w.in_flight);
  return out;
}

std::map<int, int> micros_per_pipe(const Request& request) {
  std::map<int, int> out;
  for (const std::vector<Instr>& list : generate(request).workers)
    for (const Instr& in : list)
      if (in.op == Op::Forward && in.stage == 0) ++out[in.pipe];
  return out;
}

TEST_CASE("every schedule to D = 16, N = 48 is proved") {
  const std::vector<SweepRow> rows = verify_all(16, 48);
  REQUIRE(rows.size() == known_schedules().size());
  for (const SweepRow& row : rows) {
    CAPTURE(row.schedule);
    CHECK(row.evaluations == row.schedules);
    if (row.schedule != "chimera") {
      CHECK(row.schedules == 16 * 48);
      continue;
    }
    // Divisors of D/2 for D = 2, 4 … 16: 1 2 2 3 2 4 2 4, so 20 pairs (D, f).
    CHECK(row.depths == 8);
    CHECK(row.schedules == 20 * 48);
  }
}

TEST_CASE("micro-batches in flight are Table 2's") {
  for (int D = 1; D <= 12; ++D) {
    CAPTURE(D);
    std::vector<int> falling, all;
    for (int w = 0; w < D; ++w) falling.push_back(D - w), all.push_back(3 * D);
    CHECK(in_flight({.schedule = "1f1b", .depth = D, .micro_batches = 3 * D}) == falling);
    CHECK(in_flight({.schedule = "gpipe", .depth = D, .micro_batches = 3 * D}) == all);
  }
  for (int D = 2; D <= 16; D += 2)
    for (int K = 1; K <= 3; ++K) {
      CAPTURE(D, K);
      std::vector<int> expected;  // D/2+1 at the ends to D in the middle, whatever K
      for (int w = 0; w < D; ++w) expected.push_back(D / 2 + 1 + std::min(w, D - 1 - w));
      CHECK(in_flight({.depth = D, .micro_batches = K * D}) == expected);
    }
  // [D - D/(2f) + 1, D] for more pipelines.
  for (const auto& [D, f] : {std::pair{8, 2}, {8, 4}, {16, 2}, {16, 4}, {12, 3}}) {
    const std::vector<int> peaks = in_flight({.depth = D, .micro_batches = D, .pipeline_pairs = f});
    const auto [least, most] = std::ranges::minmax(peaks);
    CAPTURE(D, f);
    CHECK(least == D - D / (2 * f) + 1);
    CHECK(most == D);
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
}

TEST_CASE(
    "gradients of a (pipe, stage) are added in ascending micro-batch order in every schedule") {
  for (const ScheduleInfo& info : known_schedules()) {
    const ComputePlan plan = generate({.schedule = info.name, .depth = 6, .micro_batches = 17});
    for (const std::vector<Instr>& list : plan.workers) {
      std::map<std::pair<int, int>, int> last;
      for (const Instr& in : list) {
        if (in.op != Op::Backward) continue;
        const auto [it, fresh] = last.try_emplace({in.pipe, in.stage}, in.micro);
        CHECK((fresh || it->second < in.micro));
        it->second = in.micro;
      }
    }
  }
}

TEST_CASE("impossible requests are refused with the nearest valid choice") {
  const auto refused = [](const Request& request, const std::string& piece) {
    CAPTURE(request.schedule, request.depth, request.micro_batches, request.pipeline_pairs);
    CHECK_THROWS_AS(generate(request), UsageError);
    CHECK_THROWS_WITH(generate(request), Catch::Contains(piece));
  };
  refused({.schedule = "gems2"}, "'gems2' is unknown; choose one of gpipe, 1f1b, chimera");
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
  refused({.schedule = "1f1b", .pipeline_pairs = 2}, "schedule 1f1b has one pipeline");
  refused({.width = 0}, "width is 0");
}

TEST_CASE("evaluation runs every micro-batch once on every stage, with two slots at most") {
  for (const Request& request : {Request{.depth = 4, .micro_batches = 4},
                                 Request{.depth = 8, .micro_batches = 5, .pipeline_pairs = 2},
                                 Request{.schedule = "1f1b", .depth = 3, .micro_batches = 2},
                                 Request{.schedule = "gpipe", .depth = 1, .micro_batches = 2}}) {
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
      CHECK(s.placement == training.placement);
      CHECK(*std::ranges::max_element(s.slots) <= 2);  // one computed, one being sent
      for (std::size_t w = 0; w < s.slots.size(); ++w) {
        CAPTURE(w, training.slots[w]);
        CHECK(s.slots[w] <= std::max(2, training.slots[w]));
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
    CHECK(generate({.schedule = info.name}).name == info.name);
  }
}

}  // namespace
}  // namespace chimera::schedule
