// Costs as files; simulations and comparisons as tables, traces and pictures.
#include <nlohmann/json.hpp>
#include <set>

#include "chimera/base/json.h"
#include "chimera/schedule/build.h"
#include "chimera/schedule/compare.h"
#include "chimera/schedule/render.h"
#include "support/support.h"

namespace chimera::schedule {
namespace {

TEST_CASE("costs read back from their file") {
  Costs costs;
  costs.forward = {1, 2.5};
  costs.recompute = {0.1};
  costs.update = {1, 2, 0.125};
  costs.message_bytes = 1e6;
  costs.inter_node = {1e-6, 1e-10};
  costs.reduction_intra_node = {2e-6, 1e-11};
  costs.workers_per_node = 4;
  costs.blocking_sends = true;
  costs.rendezvous = false;
  costs.contention = 0.1;
  CHECK_THAT(write_costs(costs), Catch::Contains("\"contention\": 0.1"));
  const Costs back = read_costs(write_costs(costs), "c.json");
  CHECK(write_costs(back) == write_costs(costs));
  CHECK(back.forward == costs.forward);
  CHECK(back.inter_node == costs.inter_node);
  CHECK(back.rendezvous == false);
}

TEST_CASE("a costs file needs little, and a wrong one is refused by key") {
  const std::string head = R"({"format": "chimera-costs", "version": 2)";
  const Costs costs = read_costs(head + R"(, "forward": [1, 3]})", "c.json");
  CHECK(costs.backward_weight == std::vector<double>{1, 3});  // as the forward
  const auto refused = [&](const std::string& text, const std::string& piece) {
    CHECK_THROWS_WITH(read_costs(text, "c.json"),
                      Catch::Contains(piece) && Catch::Contains("c.json"));
  };
  refused("{}", "is not a chimera-costs file");
  refused("[", "c.json");
  refused(R"({"format": "chimera-costs"})", "costs.version is missing");
  refused(R"({"format": "chimera-costs", "version": 1})", "costs.version is 1");
  refused(head + R"(, "foward": 1})", "costs.foward is not a known key");
  refused(head + R"(, "forward": -1})", "costs.forward is -1");
  refused(head + R"(, "forward": [1, "a"]})", "costs.forward[1] is \"a\"; it must be a number");
  refused(head + R"(, "forward": 1e999})", "c.json");
  refused(head + R"(, "inter_node": {"latency": 1}})",
          "costs.inter_node.seconds_per_byte is missing");
  refused(head + R"(, "inter_node": 3})", "costs.inter_node is 3; it must be an object");
  refused(head + R"(, "rendezvous": 1})", "costs.rendezvous is 1; it must be true or false");
  refused(head + R"(, "workers_per_node": 1.5})",
          "costs.workers_per_node is 1.5; it must be a whole number");
}

TEST_CASE("a trace has a thread per worker, all its work in microseconds, and reductions apart") {
  const Schedule s =
      build_schedule({.depth = 4, .micro_batches = 4, .width = 2, .gradient_sync = "eager"});
  Costs costs;
  costs.update = {0.5};
  costs.gradient_bytes = {1};
  costs.reduction_inter_node.latency = 0.25;
  const Simulation simulation = simulate(s, costs);
  const Json trace = parse_json(render_trace(s, simulation), "trace");
  std::map<int, double> work;
  std::set<int> reducing;
  int buffers = 0;
  bool named = false;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] == "X" && event["pid"] == 0) work[event["tid"]] += event["dur"].get<double>();
    if (event["ph"] == "X" && event["pid"] == 1) reducing.insert(event["tid"].get<int>());
    if (event["ph"] == "C") ++buffers;
    if (event["ph"] == "X") named = named || event["name"] == "t00 F p0 s0 m0";
  }
  REQUIRE(work.size() == 4);
  for (const auto& [worker, microseconds] : work)
    CHECK(microseconds == Approx(1e6 * simulation.workers[static_cast<std::size_t>(worker)].busy));
  CHECK(reducing.size() == 4);
  CHECK(buffers > 0);
  CHECK(named);
}

TEST_CASE("a simulation is a table and JSON with every worker's times") {
  const Schedule s = build_schedule({.depth = 4, .micro_batches = 4});
  const Simulation simulation = simulate(s, {});
  CHECK_THAT(render_text(s, simulation),
             Catch::Contains("16 s per step, bubble ratio 25.0 %; 1 step in 16 s"));
  const Json json = parse_json(render_json(s, simulation), "simulation");
  CHECK(json["step_seconds"] == 16.0);
  REQUIRE(json["workers"].size() == 4);
  CHECK(json["workers"][1]["tail"] == 2.0);
  CHECK(json["workers"][0]["cells"].size() == 8 + 2);  // 4 forwards, 4 backwards, 2 updates
}

TEST_CASE("pictures keep all computations of a split, recomputed or overlapping schedule apart") {
  const auto count = [](const std::string& text, const std::string& piece) {
    int n = 0;
    for (std::size_t i = text.find(piece); i != text.npos; i = text.find(piece, i + 1)) ++n;
    return n;
  };
  const Schedule again =
      build_schedule({.schedule = "1f1b", .depth = 2, .micro_batches = 3, .recompute = true});
  const std::string hatched = render_svg(again, {{"", as_soon_as_possible(again, {1, 2})}});
  CHECK(count(hatched, "<title>Recompute of") == 2 * 3);
  CHECK(count(hatched, "fill=\"url(#hatch)\"") == 2 * 3 + 1);  // and in the legend
  CHECK_THAT(render_grid(as_soon_as_possible(again, {1, 2})), Catch::Contains(" R0"));

  const Schedule flows = build_schedule({.schedule = "pipedream", .depth = 3, .micro_batches = 1});
  const Timetable table = at_ticks(computations(flows));
  CHECK(table.step_length == 2);  // a forward and a backward
  CHECK(table.idle == std::vector<double>{0, 0, 0});
  CHECK_THAT(render_svg(flows, {{"", table}}), Catch::Contains("steady state"));
  CHECK_THAT(render_grid(table), Catch::Contains("|-----|"));
  CHECK_THAT(render_grid(table), Catch::Contains("F1"));  // micro-batches counted on through steps

  const Schedule wide = build_schedule({.depth = 32, .micro_batches = 64});
  const std::string picture = render_svg(wide, simulate(wide, {}));
  CHECK(count(picture, "<title>Forward of") == 32 * 64);
  CHECK(count(picture, "<title>Backward of") == 32 * 64);
}

TEST_CASE("every schedule is compared, with Table 2's memory, or refused with its reason") {
  const std::vector<ComparedSchedule> rows = compare({.depth = 8, .micro_batches = 16}, {});
  const auto row = [&](const std::string& name) {
    const auto it = std::ranges::find(rows, name, &ComparedSchedule::name);
    REQUIRE(it != rows.end());
    return *it;
  };
  for (const ScheduleInfo& info : known_schedules()) {
    CAPTURE(info.name);
    CHECK(row(info.name).refusal.empty());
    CHECK(row(info.name).seconds >= 3 * 16);
  }
  CHECK(row("1f1b").seconds == Approx((16 + 7) * 3));
  CHECK(row("chimera").seconds == Approx(3 * 16 + 3 * 6));
  CHECK(row("chimera doubling").seconds == Approx(3 * 16 + 1.5 * 6));
  CHECK(row("chimera").least_activations == 8 / 2 + 1);
  CHECK(row("chimera").most_activations == 8);
  CHECK(row("chimera").most_weights == 2);
  CHECK(row("chimera f=2").most_weights == 4);
  CHECK(row("gpipe").most_activations == 16);
  CHECK(row("pipedream").most_weights == 8);
  CHECK(row("pipedream").least_weights == 1);
  CHECK(row("pipedream").request.micro_batches == 1);
  CHECK(row("pipedream-2bw").most_weights == 2);

  const std::vector<ComparedSchedule> odd = compare({.depth = 5, .micro_batches = 5}, {});
  const auto refused = std::ranges::find(odd, "chimera", &ComparedSchedule::name);
  REQUIRE(refused != odd.end());
  CHECK_THAT(refused->refusal, Catch::Contains("use 4 or 6"));
  CHECK_THAT(render_text(odd), Catch::Contains("chimera: depth is 5"));
  CHECK(parse_json(render_json(odd), "rows").size() == odd.size());
  const std::string svg = render_svg(odd);
  CHECK(svg.starts_with("<svg "));
  CHECK_THAT(svg, Catch::Contains("<title>1f1b: time 27 s</title>"));
}

TEST_CASE("costs of D stages are cut into as many pieces as there are virtual stages") {
  Costs costs;
  costs.forward = {1, 3};
  costs.update = {2, 4, 7};  // the tied matrix last
  const Costs cut = costs_per_virtual_stage(costs, 2, 2);
  CHECK(cut.forward == std::vector<double>{0.5, 0.5, 1.5, 1.5});
  CHECK(cut.update == std::vector<double>{1, 1, 2, 2, 7});
  CHECK(cut.backward_input == std::vector<double>{0.5});
}

}  // namespace
}  // namespace chimera::schedule
