#include "mfu_peak.h"

#include <algorithm>

#include "chimera/base/rng.h"
#include "chimera/base/threads.h"
#include "chimera/device/cuda_info.h"
#include "chimera/ops/machine_limits.h"
#include "chimera/runtime/launch.h"
#include "chimera/runtime/worker.h"
#include "chimera/tensor/half.h"
#include "chimera/tensor/host_copy.h"

namespace chimera::train {
namespace {

double cpu_peak(const Config& config, const std::string& transport) {
  const MachineLimits limits = measure_machine_limits();
  const Index sharing = workers_per_node(config, transport);
  const double threads =
      static_cast<double>(std::min<Index>(available_cores(), sharing * limits.threads));
  return limits.flops / limits.threads * threads * static_cast<double>(config.workers()) /
         static_cast<double>(sharing);
}

// Random numbers: with zeros a GPU draws less power and runs faster than any training does.
// Rounded on the host: a run that fills the GPU has no room for fp32 copies.
Tensor random_matrix(Device& device, const Buffer& memory, DType type, Index n) {
  std::vector<float> values(static_cast<std::size_t>(n * n));
  fill_normal(values.data(), n * n, 0, 0.0f, 1.0f, 1, 0);
  const Tensor out(memory.data(), type, {n, n});
  HostCopy host(device, out);
  round_into(host.here(), values.data());
  host.store();
  return out;
}

double product_rate(Device& device, Ops& ops, DType type, Index n) {
  constexpr int kRuns = 10;
  const Index bytes = n * n * size_of(type);
  const Buffer a(device, bytes), b(device, bytes), c(device, bytes);
  const Tensor x = random_matrix(device, a, type, n), w = random_matrix(device, b, type, n),
               y(c.data(), type, {n, n});
  const auto run = [&] { ops.matmul(y, x, Transpose::No, w, Transpose::No, Write::Set); };
  for (int i = 0; i < 2; ++i) run();
  const auto begin = device.make_event(true), end = device.make_event(true);
  device.record(*begin, Stream::Compute);
  for (int i = 0; i < kRuns; ++i) run();
  device.record(*end, Stream::Compute);
  device.synchronize();
  const double size = static_cast<double>(n);
  return kRuns * 2 * size * size * size / device.seconds_between(*begin, *end);
}

// From small products to large ones, until one takes a millisecond.
double gpu_peak(Device& device, Ops& ops, DType type) {
  constexpr Index kFirst = 128, kLast = 8192;
  double best = 0;
  for (Index n = kFirst; n <= kLast; n *= 2) {
    const double rate = product_rate(device, ops, type, n), size = static_cast<double>(n);
    best = std::max(best, rate);
    if (2 * size * size * size / rate > 1e-3) break;
  }
  return best;
}

}  // namespace

double measured_peak(const Config& config, Worker& worker) {
  const std::string transport = worker.comm().transport();
  if (!worker.backend().on_gpu()) return cpu_peak(config, transport);
  const Index gpus = transport == "local" ? std::min<Index>(config.workers(), cuda_device_count())
                                          : config.workers();
  return static_cast<double>(gpus) * gpu_peak(worker.device(), worker.ops(), shape_of(config).type);
}

}  // namespace chimera::train
