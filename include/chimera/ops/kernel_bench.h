#pragma once
// Benchmarks of the CPU kernels at the shapes that models use, as Markdown tables: what
// `chimera bench gemm`, `chimera bench attention` and kernels/bench print. Each case is checked
// before it is timed; a wrong result is an Error, not a row.
#include <string>
#include <vector>

#include "chimera/ops/machine_limits.h"
#include "chimera/tensor/tensor.h"

namespace chimera {

struct BenchModel {
  std::string name;
  Index B, T, H, C, V;  // V: logits computed at once
};
// quickstart (T 128, two micro-batch sizes) and gpt2-124m at B 4 T 64 and B 1 T 1024.
std::vector<BenchModel> bench_models();

struct BenchSettings {
  std::string isa = "auto";
  int rounds = 9;  // interleaved; medians are reported
};

// One line: instruction set, threads, multiply-adds and bandwidth of the machine.
std::string describe_limits(const MachineLimits& limits);
// Every share is of a limit that was measured in the same rounds as the cases; the tables end with
// those limits.
// GFLOP/s and the share of the multiply-add limit of every linear layer: forward, input gradient,
// weight gradient.
std::string gemm_table(const BenchModel& model, const BenchSettings& settings);
// Milliseconds forward and backward, their ratio, the share of the limit; with and without dropout.
std::string attention_table(const BenchModel& model, const BenchSettings& settings);
// GB/s and the share of the triad's bandwidth of every op that memory limits.
std::string memory_table(const BenchModel& model, const BenchSettings& settings);

}  // namespace chimera
