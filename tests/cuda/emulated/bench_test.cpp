// The benchmark of a GPU's ops, where times mean nothing: each op is right, and a wrong one is
// told.
#include "chimera/ops/gpu_bench.h"

#include "../on_device.h"
#include "bench/op_check.h"
#include "support/support.h"

using namespace chimera;
using namespace chimera::test;

namespace {

const BenchModel kSmall{"small", 2, 33, 2, 48, 97};
const GpuBenchSettings kQuick{.rounds = 1,
                              .head_bytes = 97 * 40 * 4,
                              .cold_bytes = 4096,
                              .copy_bytes = Index{1} << 16,
                              .product_size = 64};

}  // namespace

TEST_CASE("gpu bench: every op of a step is compared with the CPU and has a row") {
  const auto device = make_cuda_device(0);
  for (const DType type : {DType::F32, DType::BF16, DType::F16}) {
    const GpuBenchTable table = bench_gpu_ops(*device, kSmall, type, kQuick);
    const std::string text = gpu_table_text(table);
    INFO(text);
    CHECK(table.limits.bytes > 0);
    CHECK(table.limits.flops > 0);
    // 15 products, 4 of attention, and 17 ops that memory limits, of which two convert.
    CHECK(table.rows.size() == (type == DType::F32 ? 34u : 36u));
    for (const GpuBenchRow& row : table.rows) {
      CHECK(row.work > 0);
      CHECK(row.of_limit > 0);
      CHECK(text.find("| " + row.op + " | " + row.detail + " |") != std::string::npos);
    }
  }
}

TEST_CASE("gpu bench: one wrong row of many, a NaN and a wrong sum are errors, not rows") {
  const auto device = make_cuda_device(0);
  const auto ops = make_cuda_ops(*device);
  const auto reference = make_cpu_ops();
  bench::OpCase c("twice");
  const Index R = 1000, C = 48;
  const auto y = c.writes(Tensor(nullptr, DType::F32, {R, 1, C})),
             x = c.reads(Tensor(nullptr, DType::F32, {R, 1, C}));
  c.sums = std::make_shared<std::vector<double>>(1);
  int calls = 0;
  std::string wrong;
  // The first call is the device's.
  c.run = [&](Ops& o, std::span<const Tensor> t) {
    o.residual_forward(t[y], t[x], t[x], {});
    const bool ours = calls++ % 2 == 0;
    const Tensor row = t[y].rows(77, 1);
    if (ours && wrong == "row") o.residual_forward(row, row, row, {});
    if (ours && wrong == "nan") {
      const float nan = NAN;
      device->copy_in(row.raw(), &nan, sizeof nan);
    }
    c.sums->front() = ours && wrong == "sum" ? 1 + 1e-9 : 1;
  };
  const bench::Operands operands(*device, c);
  const auto check = [&] {
    bench::check_case(c, *ops, *reference, *device, operands, bench::tolerance_of(DType::F32));
  };
  CHECK_NOTHROW(check());
  for (const char* const what : {"row", "nan"}) {
    wrong = what;
    // 77 * 48 = 3696 is in the block of 256 from 3584 on.
    CHECK_THROWS_WITH(check(), Catch::Matchers::Contains("twice") &&
                                   Catch::Matchers::Contains("elements 3584 to 3839 differ"));
  }
  wrong = "sum";
  CHECK_THROWS_WITH(check(), Catch::Matchers::Contains("sum 0 is"));
}
