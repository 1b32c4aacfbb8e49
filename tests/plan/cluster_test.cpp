#include "chimera/plan/cluster.h"

#include "support/support.h"

namespace chimera::plan {
namespace {

std::string replaced(std::string text, const std::string& what, const std::string& with) {
  const std::size_t at = text.find(what);
  REQUIRE(at != std::string::npos);
  return text.replace(at, what.size(), with);
}

std::string good() { return test::slurp(test::source_folder() / "configs/clusters/dgx-h100.json"); }

}  // namespace

TEST_CASE("clusters: every shipped file is read, with a source for every number") {
  int files = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(test::source_folder() / "configs/clusters")) {
    if (entry.path().extension() != ".json") continue;
    ++files;
    const Cluster cluster = read_cluster(entry.path().string());
    CHECK(cluster.name == entry.path().stem().string());
  }
  CHECK(files == 3);
  const Cluster dgx = parse_cluster(good(), "dgx");
  CHECK(dgx.devices_per_node == 8);
  CHECK(dgx.intra_node.bandwidth == 450e9);  // one of NVLink's two directions
  CHECK(dgx.inter_node.seconds(50e9) == Approx(1 + 8e-6));
  CHECK(dgx.reduction_inter_node.bandwidth == 50e9);
  CHECK(dgx.peak_flops_16bit == 989e12);
}

TEST_CASE("clusters: what is missing, negative or absurd is refused by key, value and range") {
  struct Case {
    const char *what, *with, *message;
  };
  const Case cases[] = {
      {"\"value\": 66.9e12", "\"value\": -1", "device.peak_flops.value is -1"},
      {"\"value\": 66.9e12", "\"value\": 6.69e24", "from 1e+08 to 1e+18 operations per second"},
      {"\"value\": 0.6", "\"value\": 1.5", "device.achieved_fraction.value is 1.5"},
      {"\"value\": 989e12", "\"value\": 0", "device.peak_flops_16bit.value is 0"},
      {"\"value\": 80e9", "\"value\": 80", "device.memory_bytes.value is 80"},
      {"\"value\": 80e9", "\"value\": \"80 GB\"", "device.memory_bytes.value is \"80 GB\""},
      {"\"value\": 8,", "\"value\": 8.5,", "devices_per_node.value is 8.5; it must be a whole"},
      {"\"value\": 8,", "\"value\": 0,", "devices_per_node.value is 0"},
      {"\"value\": 5e-6", "\"value\": 5", "intra_node.latency.value is 5"},
      {"\"value\": 50e9", "\"value\": 0", "inter_node.bandwidth.value is 0"},
      {"\"peak_flops\"", "\"peak_flop\"", "device.peak_flops is missing"},
      {"\"intra_node\"", "\"intranode\"", "intranode is not a known key"},
      {"\"source\": \"data sheet: 80 GB HBM3\"", "\"source\": \"\"",
       "device.memory_bytes.source is \"\""},
      {"chimera-cluster", "chimera-costs", "is not a chimera-cluster file"},
      {"\"version\": 1", "\"version\": 2", "version is 2; this program reads version 1"},
  };
  for (const Case& c : cases) {
    INFO(c.with);
    CHECK_THROWS_WITH(parse_cluster(replaced(good(), c.what, c.with), "the file"),
                      Catch::StartsWith("the file") && Catch::Contains(c.message));
  }
  CHECK_THROWS_WITH(read_cluster("/nowhere/cluster.json"),
                    Catch::Contains("/nowhere/cluster.json"));
}

}  // namespace chimera::plan
