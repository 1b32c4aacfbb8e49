#include "bench_case.h"

#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "chimera/base/rng.h"

namespace chimera {
namespace bench {

Tensor Arrays::add(std::initializer_list<Index> shape, float deviation) {
  const Index n = Tensor(nullptr, DType::F32, shape).size();
  Floats& x = floats_.emplace_back(static_cast<std::size_t>(n));
  fill_normal(x.data(), n, 0, 0, deviation, 1, floats_.size());
  return Tensor(x.data(), DType::F32, shape);
}

Tensor Arrays::add_ids(Index n, Index below) {
  auto& ids = ids_.emplace_back(static_cast<std::size_t>(n));
  for (Index i = 0; i < n; ++i)
    ids[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(permute_index(i, n, 3, 0) % below);
  return Tensor(ids.data(), DType::I32, {n});
}

void check_against_baseline(const Case& c, Ops& ops) {
  const auto copy = [](const Tensor& t) { return Floats(t.f32(), t.f32() + t.size()); };
  const auto put = [](const Tensor& t, const Floats& x) {
    std::memcpy(t.raw(), x.data(), x.size() * sizeof(float));
  };
  std::vector<Floats> before, ours;
  for (const Tensor& t : c.outputs) before.push_back(copy(t));
  c.run(ops);
  for (std::size_t i = 0; i < c.outputs.size(); ++i) {
    ours.push_back(copy(c.outputs[i]));
    put(c.outputs[i], before[i]);
  }
  c.run(*make_cpu_ops("baseline"));
  for (std::size_t i = 0; i < c.outputs.size(); ++i) {
    double difference = 0, norm = 0;
    for (Index e = 0; e < c.outputs[i].size(); ++e) {
      const double reference = static_cast<double>(c.outputs[i].f32()[e]);
      const double d = static_cast<double>(ours[i][static_cast<std::size_t>(e)]) - reference;
      difference += d * d;
      norm += reference * reference;
    }
    // Two fp32 results, each within 5e-6 of float64 (tests/kernels).
    ENSURE(difference <= 1e-10 * norm, c.name, ": output ", i, " differs from the baseline by ",
           std::sqrt(difference / norm), " (relative Frobenius norm); its time means nothing");
  }
}

TimedBodies time_cases(const std::vector<Case>& cases, Ops& ops, const BenchSettings& settings) {
  std::vector<std::function<void()>> bodies;
  for (const Case& c : cases) bodies.push_back([&] { c.run(ops); });
  return time_with_limits(bodies, settings.rounds, settings.isa);
}

std::string text(const char* format, ...) {
  char buffer[256];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(buffer, sizeof buffer, format, arguments);
  va_end(arguments);
  return buffer;
}

}  // namespace bench

std::vector<BenchModel> bench_models() {
  return {{"quickstart, B 2 T 128", 2, 128, 4, 160, 4096},
          {"quickstart wide, B 8 T 128", 8, 128, 4, 192, 4096},
          {"gpt2-124m, B 4 T 64", 4, 64, 12, 768, 50257},
          {"gpt2-124m, B 1 T 1024", 1, 1024, 12, 768, 12565}};
}

std::string describe_limits(const MachineLimits& limits) {
  return bench::text(
      "machine limits (threads %d, %s): %.0f GFLOP/s multiply-add, %.1f GB/s triad\n",
      limits.threads, limits.isa.c_str(), limits.flops / 1e9, limits.bytes / 1e9);
}

}  // namespace chimera
