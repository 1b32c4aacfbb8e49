// The benchmarks check before they time; here they run on sizes too small to mean anything.
#include "chimera/ops/kernel_bench.h"

#include <algorithm>

#include "kernel_support.h"
#include "machines.h"

using namespace chimera;
using namespace chimera::test;

TEST_CASE("median_seconds: every body runs, and a longer one takes longer") {
  volatile double sink = 1;
  int turns = 0;
  const auto work = [&](int n) {
    for (int i = 0; i < n; ++i) sink = sink * 0.999;
  };
  const auto seconds = median_seconds({[&] {
                                         work(1000);
                                         ++turns;
                                       },
                                       [&] { work(50000); }},
                                      5);
  REQUIRE(seconds.size() == 2);
  CHECK(turns >= 7);                   // one to warm up, one to choose the count, five rounds
  CHECK(seconds[1] > 5 * seconds[0]);  // 50 times the work
}

TEST_CASE("benchmark tables: a row per case, for odd sizes and every instruction set") {
  const BenchModel model{"tiny", 1, 9, 3, 21, 35};
  for (const std::string& isa : machine_isas()) {
    const BenchSettings settings{isa, 1};
    const auto rows = [](const std::string& table) {
      return std::count(table.begin(), table.end(), '\n') - 7;  // title, blank lines, head, limits
    };
    CHECK(rows(gemm_table(model, settings)) == 5);
    CHECK(rows(attention_table(model, settings)) == 2);
    CHECK(rows(memory_table(model, settings)) == 13);
  }
}
