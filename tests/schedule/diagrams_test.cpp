// The paper's figures, cell for cell, and its bubble counts as formulas.
#include <fstream>
#include <sstream>

#include "chimera/schedule/build.h"
#include "chimera/schedule/render.h"
#include "support/support.h"

namespace chimera::schedule {
namespace {

struct Diagram {
  int D = 0, N = 0, f = 0, backward = 0;
  std::string rows;  // cells separated by single blanks
};

std::string squeezed(const std::string& line) {
  std::istringstream words(line);
  std::string word, out;
  while (words >> word) out += (out.empty() ? "" : " ") + word;
  return out;
}

std::vector<Diagram> read_diagrams() {
  std::ifstream file(test::source_folder() / "tests/schedule/diagrams.txt");
  REQUIRE(file.good());
  std::vector<Diagram> out;
  std::string line;
  while (std::getline(file, line)) {
    if (line.empty() || line[0] == '#') continue;
    if (line.starts_with("diagram ")) {
      Diagram& d = out.emplace_back();
      std::istringstream(line.substr(8)) >> d.D >> d.N >> d.f >> d.backward;
    } else {
      out.back().rows += squeezed(line) + "\n";
    }
  }
  return out;
}

// The grid without its heading and its column of idle units.
std::string rows_of(const Timetable& table) {
  std::istringstream lines(render_grid(table));
  std::string line, out;
  std::getline(lines, line);
  while (std::getline(lines, line)) {
    const std::string cells = squeezed(line);
    out += cells.substr(0, cells.rfind(' ')) + "\n";
  }
  return out;
}

Timetable table_of(const Request& request, int backward) {
  const ComputePlan plan = computations(build_schedule(request));
  return backward == 1 ? at_ticks(plan)
                       : as_soon_as_possible(plan, {.forward = 1, .backward = backward});
}

std::vector<double> all_workers(int D, int idle) {
  return std::vector<double>(static_cast<std::size_t>(D), idle);
}

TEST_CASE("chimera draws the figures of the paper cell for cell") {
  const std::vector<Diagram> diagrams = read_diagrams();
  REQUIRE(diagrams.size() == 6);
  for (const Diagram& d : diagrams) {
    CAPTURE(d.D, d.N, d.f, d.backward);
    const Request request{.depth = d.D, .micro_batches = d.N, .pipeline_pairs = d.f};
    CHECK(rows_of(table_of(request, d.backward)) == d.rows);
  }
}

TEST_CASE("gpipe and 1f1b idle 2(D-1) equal slots and (D-1)(F+B) units") {
  for (const char* name : {"gpipe", "1f1b"})
    for (int D = 1; D <= 16; ++D)
      for (const int N : {1, 2, D, 2 * D + 1}) {
        CAPTURE(name, D, N);
        const Request request{.schedule = name, .depth = D, .micro_batches = N};
        const Timetable slots = table_of(request, 1), twice = table_of(request, 2);
        CHECK(slots.makespan == 2 * N + 2 * (D - 1));
        CHECK(slots.idle == all_workers(D, 2 * (D - 1)));
        CHECK(twice.makespan == 3 * N + 3 * (D - 1));
        CHECK(twice.idle == all_workers(D, 3 * (D - 1)));
      }
}

TEST_CASE("chimera idles D/f-2 equal slots for every number of whole units") {
  for (int D = 2; D <= 16; D += 2)
    for (int f = 1; f <= D / 2; ++f) {
      if (D / 2 % f != 0) continue;
      for (int K = 1; K <= 3; ++K) {
        CAPTURE(D, f, K);
        const Timetable slots =
            table_of({.depth = D, .micro_batches = K * D, .pipeline_pairs = f}, 1);
        CHECK(slots.idle == all_workers(D, D / f - 2));
      }
    }
}

TEST_CASE(
    "chimera with backward twice forward idles (K+1)(D/f-2) units under direct concatenation") {
  for (int D = 2; D <= 16; D += 2)
    for (int f = 1; f <= D / 2; ++f) {
      if (D / 2 % f != 0) continue;
      for (int K = 1; K <= 4; ++K) {
        CAPTURE(D, f, K);
        const Timetable twice =
            table_of({.depth = D, .micro_batches = K * D, .pipeline_pairs = f}, 2);
        CHECK(twice.makespan == 3 * K * D + (K + 1) * (D / f - 2));
        CHECK(twice.idle == all_workers(D, (K + 1) * (D / f - 2)));
      }
    }
}

TEST_CASE("the critical path of one chimera unit is D forwards and 2D-2 backwards") {
  // The paper's example: D = N = 6 has 6 forwards and 10 backwards on it (section 3.4).
  for (int D = 2; D <= 16; D += 2)
    for (int backward = 2; backward <= 4; ++backward)
      CHECK(table_of({.depth = D, .micro_batches = D}, backward).makespan ==
            D + (2 * D - 2) * backward);
}

TEST_CASE("the bubble ratio of chimera is Table 2's") {
  // (D-2)/(2N+D-2) in equal slots; (D-2)/(3N/2+D-2) with backward twice forward at N = D.
  const double D = 8, N = 8;
  CHECK(table_of({.depth = 8, .micro_batches = 8}, 1).bubble_ratio() ==
        Approx((D - 2) / (2 * N + D - 2)).epsilon(1e-12));
  CHECK(table_of({.depth = 8, .micro_batches = 8}, 2).bubble_ratio() ==
        Approx((D - 2) / (3 * N / 2 + D - 2)).epsilon(1e-12));
}

TEST_CASE("text names pipes, micro-batches and bubbles") {
  const Schedule s = build_schedule({.depth = 4, .micro_batches = 5});
  const std::string text = render_text(s, {{"equal slots", at_ticks(computations(s))}});
  CHECK_THAT(text, Catch::Contains("chimera: D = 4, N = 5, f = 1\n"));
  CHECK_THAT(text, Catch::Contains("down0  stages on workers 0 1 2 3; micro-batches 0 1 4\n"));
  CHECK_THAT(text, Catch::Contains("up0    stages on workers 3 2 1 0; micro-batches 2 3\n"));
  CHECK_THAT(text,
             Catch::Contains("equal slots: makespan 16, idle 6 per worker: bubble ratio 37.5 %\n"));
}

TEST_CASE("a picture has one labelled cell per computation") {
  const Schedule s = build_schedule({.depth = 4, .micro_batches = 4});
  const std::string svg = render_svg(s, {{"equal slots", at_ticks(computations(s))}});
  std::size_t cells = 0;
  for (std::size_t i = svg.find("<title>"); i != svg.npos; i = svg.find("<title>", i + 1)) ++cells;
  CHECK(cells == 2 * 4 * 4);  // a forward and a backward per stage and micro-batch
  CHECK_THAT(svg, Catch::Contains("Backward of micro-batch 3, stage 0, up0, worker 3, 9 to 10"));
  CHECK(svg.starts_with("<svg "));
  CHECK(svg.ends_with("</svg>\n"));
}

TEST_CASE("an order that waits for itself has no timetable") {
  ComputePlan plan = generate({.schedule = "1f1b", .depth = 2, .micro_batches = 2});
  std::swap(plan.workers[1][0], plan.workers[1][1]);  // the backward before the forward
  CHECK_THROWS_WITH(as_soon_as_possible(plan, {}), Catch::Contains("t01 F p0 s1 m0 in one tick"));
}

}  // namespace
}  // namespace chimera::schedule
