#pragma once
// Benchmarks of a GPU's ops at the shapes that models use: what `chimera bench gpu` prints. Every
// op is compared with the CPU's result before it is timed; a wrong one is an Error, not a row.
// Shares are of limits measured in the same run: copying within the device, and the best large
// product.
#include <functional>
#include <string>
#include <vector>

#include "chimera/ops/cuda_ops.h"
#include "chimera/ops/kernel_bench.h"

namespace chimera {

// GPT-2 124M, 350M, 774M, 1558M at T 1024 and the Chimera paper's model at T 632, B 16.
std::vector<BenchModel> gpu_bench_models();

struct GpuBenchSettings {
  int rounds = 9;                       // medians are reported
  Index head_bytes = Index{48} << 20;   // of a chunk of logits
  Index cold_bytes = Index{256} << 20;  // overwritten before each run: more than any cache holds
  Index copy_bytes = Index{1} << 30;    // what the copy limit is measured on
  Index product_size = 8192;            // M, N, K of the largest product for the other limit
};

struct GpuLimits {
  double bytes = 0;     // per second, read and written, of a copy within the device
  double flops = 0;     // per second, of the best product
  std::string product;  // its shape
};

struct GpuBenchRow {
  std::string op, detail;
  double seconds = 0, work = 0;  // floating-point operations, or bytes that must move
  bool products = false;         // which of the two
  double of_limit = 0;
};

struct GpuBenchTable {
  std::string model, device;
  DType type = DType::F32;
  GpuLimits limits;
  std::vector<GpuBenchRow> rows;
  std::vector<std::string> choices;  // what computes, and why: CudaOps::describe
};

// `type`: F32, BF16 or F16. `progress` is called with each op's name before it is checked.
GpuBenchTable bench_gpu_ops(CudaDevice& device, const BenchModel& model, DType type,
                            const GpuBenchSettings& settings,
                            const std::function<void(const std::string&)>& progress = {});

// Markdown.
std::string gpu_table_text(const GpuBenchTable& table);

}  // namespace chimera
