#pragma once
// The ops of a training step at the shapes of a model, as data: which tensors a call takes, what it
// must move or compute at least, and the call itself. The same case runs on any backend.
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "chimera/ops/kernel_bench.h"
#include "chimera/ops/ops.h"

namespace chimera::bench {

struct Operand {
  Tensor like;          // type and shape, without memory
  double moved = 0;     // elements that must be read, plus those that must be written
  bool output = false;  // its numbers are compared
  float deviation = 0;  // of the normal numbers that it starts with; 0: zeros
  Index below = 0;      // I32: ids 0 ... below - 1
};

struct OpCase {
  explicit OpCase(std::string n) : name(std::move(n)) {}

  std::string name, detail;
  double flops = 0;  // 0: memory limits it
  std::vector<Operand> operands;
  using Call = std::function<void(Ops&, std::span<const Tensor>)>;
  Call run;  // takes the operands' tensors in order
  Call
      prepare;  // before the first run, not timed: fills operands with what they must hold; or none
  std::shared_ptr<std::vector<double>> sums;  // what the last run gave the host; or none

  double bytes() const;
  // Number of the new operand, for `run`.
  std::size_t reads(Tensor like, float deviation = 1);
  std::size_t writes(Tensor like);
  std::size_t updates(Tensor like,
                      float deviation = 1);  // read and written, as gradients of weights
  std::size_t ids(Index n, Index below);
};

// Activations and weights are of `type`; statistics, gradients of weights and moments F32. The
// head's cases are of one chunk of logits of at most `head_bytes`.
std::vector<OpCase> memory_cases(const BenchModel& model, DType type, Index head_bytes);
// Forward and backward, as floating-point operations; without dropout and with 0.1.
std::vector<OpCase> attention_cases(const BenchModel& model, DType type);
// The linear layers: forward, input gradient, weight gradient, with what is fused to them.
std::vector<OpCase> matmul_cases(const BenchModel& model, DType type, Index head_bytes);

// Rows of a chunk of logits.
Index head_rows(const BenchModel& model, DType type, Index head_bytes);

}  // namespace chimera::bench
