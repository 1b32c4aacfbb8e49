// Each case: inputs made on the host, the CPU's result, the GPU's, compared, then timed.
#include "chimera/ops/gpu_bench.h"

#include <algorithm>
#include <array>

#include "bench_case.h"
#include "chimera/ops/half_ops.h"
#include "op_check.h"

namespace chimera {
namespace {

using bench::OpCase;
using bench::Operands;
using bench::text;

// Seconds of what `body` gives the GPU, by its own clock: the median of `rounds` after one that is
// not counted. Before each, memory larger than any cache is overwritten, so that caches hold
// nothing the body needs, and so that the host is done enqueuing when its turn comes.
double device_seconds(Device& device, const GpuBenchSettings& s,
                      const std::function<void()>& body) {
  const Buffer cold(device, s.cold_bytes);
  const auto start = device.make_event(true), end = device.make_event(true);
  std::vector<double> seconds;
  for (int round = -1; round < s.rounds; ++round) {
    device.zero(cold.data(), cold.bytes());
    device.record(*start, Stream::Compute);
    body();
    device.record(*end, Stream::Compute);
    device.synchronize();
    if (round >= 0) seconds.push_back(device.seconds_between(*start, *end));
  }
  std::ranges::sort(seconds);
  return seconds[seconds.size() / 2];
}

double copy_limit(CudaDevice& device, const GpuBenchSettings& s) {
  const Buffer from(device, s.copy_bytes), to(device, s.copy_bytes);
  device.zero(from.data(), from.bytes());
  const double seconds =
      device_seconds(device, s, [&] { device.copy(to.data(), from.data(), s.copy_bytes); });
  return 2 * static_cast<double>(s.copy_bytes) / seconds;
}

// The best of several shapes: none is the fastest everywhere.
void product_limit(CudaDevice& device, Ops& ops, DType type, const GpuBenchSettings& s,
                   GpuLimits& limits) {
  const Index n = s.product_size;
  const std::unique_ptr<Device> host = make_host_device();
  for (const auto& [M, N, K] : {std::array{n, n, n}, std::array{2 * n, n, n / 2}}) {
    OpCase c("product");
    const auto out = c.writes(Tensor(nullptr, type, {M, N})),
               a = c.reads(Tensor(nullptr, type, {M, K})),
               b = c.reads(Tensor(nullptr, type, {K, N}));
    const Operands on(device, c);
    for (const std::size_t i : {a, b}) {  // random numbers: zeros would be faster
      const Tensor& t = on.tensors()[i];
      const Buffer numbers(*host, t.bytes());
      bench::fill(t.at(numbers.data()), c.operands[i], i);
      device.copy_in(t.raw(), numbers.data(), t.bytes());
    }
    const auto t = on.tensors();
    const double seconds = device_seconds(device, s, [&] {
      ops.matmul(t[out], t[a], Transpose::No, t[b], Transpose::No, Write::Set);
    });
    const double flops =
        2.0 * static_cast<double>(M) * static_cast<double>(N) * static_cast<double>(K) / seconds;
    if (flops > limits.flops) limits.flops = flops, limits.product = concat(M, " x ", K, " x ", N);
  }
}

}  // namespace

std::vector<BenchModel> gpu_bench_models() {
  return {{"gpt2-124m, B 16 T 1024", 16, 1024, 12, 768, 50257},
          {"gpt2-350m, B 16 T 1024", 16, 1024, 16, 1024, 50257},
          {"gpt2-774m, B 16 T 1024", 16, 1024, 20, 1280, 50257},
          {"gpt2-1558m, B 16 T 1024", 16, 1024, 25, 1600, 50257},
          {"gpt2-1.3b of the paper, B 16 T 632", 16, 632, 20, 1280, 50257}};
}

GpuBenchTable bench_gpu_ops(CudaDevice& device, const BenchModel& model, DType type,
                            const GpuBenchSettings& settings,
                            const std::function<void(const std::string&)>& progress) {
  const auto ops = make_cuda_ops(device, {.autotune_matmul = true,
                                          .epilogues = CudaImplementation::Autotuned,
                                          .attention = CudaImplementation::Autotuned});
  const auto reference = make_half_ops(make_cpu_ops());
  GpuBenchTable table{model.name, device.name(), type, {}, {}, {}};
  table.limits.bytes = copy_limit(device, settings);
  product_limit(device, *ops, type, settings, table.limits);
  std::vector<OpCase> cases = bench::matmul_cases(model, type, settings.head_bytes);
  for (auto group :
       {bench::attention_cases(model, type), bench::memory_cases(model, type, settings.head_bytes)})
    for (OpCase& c : group) cases.push_back(std::move(c));
  for (const OpCase& c : cases) {
    if (progress) progress(c.name);
    const Operands operands(device, c);
    bench::check_case(c, *ops, *reference, device, operands, bench::tolerance_of(type));
    const double seconds =
        device_seconds(device, settings, [&] { c.run(*ops, operands.tensors()); });
    const double work = c.flops > 0 ? c.flops : c.bytes();
    table.rows.push_back(
        {c.name, c.detail, seconds, work, c.flops > 0,
         work / seconds / (c.flops > 0 ? table.limits.flops : table.limits.bytes)});
  }
  ops->check();
  table.choices = ops->describe();
  return table;
}

std::string gpu_table_text(const GpuBenchTable& t) {
  std::string out =
      concat("\n### ", t.model, ", ", to_string(t.type),
             "\n\n| op | size | us | rate | of the limit |\n", "|---|---|---:|---:|---:|\n");
  for (const GpuBenchRow& r : t.rows)
    out +=
        concat("| ", r.op, " | ", r.detail, " | ",
               r.products ? text("%.1f | %.1f TFLOP/s", 1e6 * r.seconds, 1e-12 * r.work / r.seconds)
                          : text("%.1f | %.0f GB/s", 1e6 * r.seconds, 1e-9 * r.work / r.seconds),
               text(" | %.0f %% |\n", 100 * r.of_limit));
  for (const std::string& choice : t.choices) out += "\n- " + choice;
  if (!t.choices.empty()) out += "\n";
  return out +
         text("\nlimits: %.0f GB/s copying within the device (read and written), ",
              1e-9 * t.limits.bytes) +
         text("%.1f TFLOP/s in a product of ", 1e-12 * t.limits.flops) + t.limits.product + "; " +
         t.device + "\n";
}

}  // namespace chimera
