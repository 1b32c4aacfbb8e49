#pragma once
// A case of a benchmark: a call, what it writes, and what it costs at least.
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "chimera/ops/kernel_bench.h"
#include "chimera/ops/ops.h"

namespace chimera::bench {

using Floats = std::vector<float>;

// Owns the arrays of a table's cases; addresses stay.
class Arrays {
 public:
  // Normal numbers of the deviation, others for every array.
  Tensor add(std::initializer_list<Index> shape, float deviation = 1);
  // Numbers 0 ... below - 1.
  Tensor add_ids(Index n, Index below);

 private:
  std::deque<Floats> floats_;
  std::deque<std::vector<std::int32_t>> ids_;
};

struct Case {
  std::string name;
  double work;  // floating-point operations or bytes, at least
  std::function<void(Ops&)> run;
  std::vector<Tensor> outputs;
};

// Runs the case with `ops` and with the baseline kernels on the same inputs and compares.
// Throws Error when they differ by more than rounding.
void check_against_baseline(const Case& c, Ops& ops);

// Seconds of each case and the machine's limits, all interleaved.
TimedBodies time_cases(const std::vector<Case>& cases, Ops& ops, const BenchSettings& settings);

// printf-style formatting of one cell or row.
std::string text(const char* format, ...) __attribute__((format(printf, 1, 2)));

}  // namespace chimera::bench
