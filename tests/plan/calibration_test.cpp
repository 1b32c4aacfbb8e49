#include "chimera/plan/calibration.h"

#include "chimera/base/file.h"
#include "support/support.h"

namespace chimera::plan {
namespace {

MeasuredStep step(Index B, double scale) {
  MeasuredStep s;
  s.name = "toy";
  s.C = 64, s.H = 2, s.V = 128, s.T = 32, s.B = B;
  s.workers = 2;
  s.times = {1e-3 * scale, 2e-3 * scale, 3e-3 * scale, 1e-6, 8e-4 * scale,
             1e-5 * scale, 2e-5 * scale, 5e-3 * scale, 1e-9};
  return s;
}

Calibration toy() {
  Calibration c;
  c.machine = "a machine";
  c.cores = 4;
  c.memory_bytes = 8e9;
  c.steps = {step(1, 1), step(4, 3.7)};
  c.p2p = {{"local", 2, 5e-6, 1e-10, {{256, 6e-6}, {65536, 1.2e-5}}}};
  return c;
}

model::ModelConfig toy_model() {
  model::ModelConfig m;
  m.n_layer = 3, m.n_head = 2, m.n_embd = 64, m.n_positions = 32, m.vocab_size = 128;
  m.embd_pdrop = m.attn_pdrop = m.resid_pdrop = 0;
  return m;
}

}  // namespace

TEST_CASE("calibration: a line through exact times is found again") {
  MeasuredLink link;
  for (const double bytes : {64.0, 4096.0, 1048576.0})
    link.points.push_back({bytes, 5e-6 + 2e-10 * bytes});
  fit_line(link);
  // Two unknowns, three points on the line: only rounding of the normal equations remains.
  CHECK(link.alpha == Approx(5e-6).epsilon(1e-9));
  CHECK(link.beta == Approx(2e-10).epsilon(1e-9));
}

TEST_CASE("calibration: a line needs two sizes, and costs nothing negative") {
  MeasuredLink link;
  link.points = {{64, 1e-6}, {64, 2e-6}};
  CHECK_THROWS_WITH(fit_line(link), Catch::Contains("two different sizes"));
  link.points = {{100, 2e-6}, {200, 1e-6}};  // falling: the best line with beta >= 0 is level
  fit_line(link);
  CHECK(link.beta == 0);
  CHECK(link.alpha > 1e-6);
  CHECK(link.alpha < 2e-6);
}

TEST_CASE("calibration: Rabenseifner's cost of the paper") {
  // r = 2: 2 alpha + beta L; r = 1: nothing to do.
  CHECK(allreduce_seconds(1e-6, 1e-9, 1e6, 2) == Approx(2e-6 + 1e-3));
  CHECK(allreduce_seconds(1e-6, 1e-9, 1e6, 8) == Approx(6e-6 + 1.75e-3));
  CHECK(allreduce_seconds(1e-6, 1e-9, 1e6, 1) == 0);
}

TEST_CASE("calibration: a reduction's line gives the link's alpha and beta") {
  MeasuredLink link;
  link.ranks = 4;
  for (const double bytes : {1e3, 1e5, 1e7})
    link.points.push_back({bytes, allreduce_seconds(7e-6, 3e-10, bytes, 4)});
  fit_reduction(link);
  CHECK(link.alpha == Approx(7e-6).epsilon(1e-9));
  CHECK(link.beta == Approx(3e-10).epsilon(1e-9));
}

TEST_CASE("calibration: what is written is read, to the last digit") {
  const std::string text = to_json(toy());
  CHECK(to_json(parse_calibration(text, "c")) == text);
}

TEST_CASE("calibration: times between and beyond the measured B lie on a line") {
  const Calibration c = toy();
  // Through 1 at B = 1 and 3.7 at B = 4: 0.9 per sample.
  CHECK(measured_times(c, toy_model(), 2, 32).block_forward == Approx(1.9e-3));
  CHECK(measured_times(c, toy_model(), 8, 32).head == Approx(7.3 * 5e-3));
  CHECK(measured_times(c, toy_model(), 4, 32).block_weight == Approx(3.7 * 3e-3));
  CHECK(measured_times(c, toy_model(), 4, 32).optimizer == 1e-9);  // per parameter
  model::ModelConfig other = toy_model();
  other.n_layer = 100;  // any number of blocks
  CHECK(measured_times(c, other, 1, 32).block_input == Approx(2e-3));
  other.n_embd = 128;
  CHECK_THROWS_WITH(measured_times(c, other, 1, 32),
                    Catch::Contains("width 128") && Catch::Contains("chimera bench step --model"));
  CHECK_THROWS_WITH(measured_times(c, toy_model(), 1, 16), Catch::Contains("sequence 16"));
  other = toy_model();
  other.attn_pdrop = 0.1;
  CHECK_THROWS_WITH(measured_times(c, other, 1, 32), Catch::Contains("and dropout"));
}

TEST_CASE("calibration: this machine has as many devices as its cores serve") {
  Calibration c = toy();
  const Cluster cluster = cluster_of(c, "local");
  CHECK(cluster.devices_per_node == 4);
  CHECK(cluster.nodes == 1);
  CHECK(cluster.memory_bytes == 2e9);
  CHECK(cluster.intra_node.seconds(1e10) == Approx(1 + 5e-6));
  CHECK(cluster.reduction_intra_node.latency == 5e-6);  // no reduction measured: as messages
  CHECK_THROWS_WITH(cluster_of(c, "mpi"), Catch::Contains("no p2p over mpi"));
  c.steps.clear();
  CHECK_THROWS_WITH(cluster_of(c, "local"), Catch::Contains("bench step"));
}

TEST_CASE("calibration: damaged files are refused by key, value and range") {
  struct Case {
    const char *what, *with, *message;
  };
  const Case cases[] = {
      {"\"alpha\": 5e-06", "\"alpha\": -5e-06", "p2p[0].alpha is -5e-06"},
      {"\"beta\": 1e-10", "\"beta\": 2", "p2p[0].beta is 2; it must be a number from 0 to 1"},
      {"\"head\": 0.005", "\"head\": 0", "steps[0].seconds.head is 0"},
      {"\"head\": 0.005", "\"heads\": 0.005", "steps[0].seconds.head is missing"},
      {"\"C\": 64", "\"C\": 64.5", "steps[0].C is 64.5; it must be a whole number"},
      {"\"V\": 128", "\"V\": 1e300", "steps[0].V is 1e+300"},
      {"\"cores\": 4", "\"cores\": 0", "cores is 0"},
      {"\"dropout\": false", "\"dropout\": 0", "steps[0].dropout is 0; it must be true or false"},
      {"\"machine\": \"a machine\"", "\"machine\": 3", "machine is 3"},
      {"chimera-calibration", "chimera-cluster", "not a chimera-calibration file"},
      {"\"points\": [", "\"points\": [1, ", "p2p[0].points[0] is 1; it must be an object"},
  };
  for (const Case& c : cases) {
    std::string text = to_json(toy());
    const std::size_t at = text.find(c.what);
    INFO(c.what);
    REQUIRE(at != std::string::npos);
    text.replace(at, std::string(c.what).size(), c.with);
    CHECK_THROWS_WITH(parse_calibration(text, "c.json"),
                      Catch::StartsWith("c.json") && Catch::Contains(c.message));
  }
}

TEST_CASE("calibration: merging replaces the same kind, keeps others, refuses other machines") {
  const test::TemporaryFolder folder;
  const std::string file = (folder / "c.json").string();
  merge_into(file, toy());
  Calibration fresh = toy();
  fresh.steps = {step(4, 5)};
  fresh.p2p.front().transport = "mpi";
  merge_into(file, fresh);
  const Calibration merged = read_calibration(file);
  REQUIRE(merged.steps.size() == 2);
  CHECK(merged.steps[1].times.block_forward == Approx(5e-3));
  REQUIRE(merged.p2p.size() == 2);
  CHECK(merged.p2p[0].transport == "local");
  fresh.machine = "another";
  const std::string before = read_file(file, 1 << 20);
  CHECK_THROWS_WITH(merge_into(file, fresh), Catch::Contains("measured on \"a machine\""));
  CHECK(read_file(file, 1 << 20) == before);
}

}  // namespace chimera::plan
