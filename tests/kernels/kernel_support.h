#pragma once
// What the tests of the kernels share: arrays as tensors, distances, the backend under test.
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "chimera/base/rng.h"
#include "chimera/ops/ops.h"
#include "support/support.h"

namespace chimera::test {

using Floats = std::vector<float>;
using Doubles = std::vector<double>;
using Ids = std::vector<std::int32_t>;

inline std::size_t at(Index i) { return static_cast<std::size_t>(i); }

// An fp32 op sums up to a few thousand products of rounding error 2^-24 each; errors add like a
// random walk, so the whole result stays under this distance (facts/reliability.md, section 4).
inline constexpr double kFp32 = 5e-6;

inline Tensor tensor(Floats& x, std::initializer_list<Index> shape) {
  return Tensor(x.data(), DType::F32, shape);
}
inline Tensor tensor(Ids& x, std::initializer_list<Index> shape) {
  return Tensor(x.data(), DType::I32, shape);
}

inline Floats random_floats(Index n, std::uint64_t seed, float deviation = 1) {
  Floats x(static_cast<std::size_t>(n));
  fill_normal(x.data(), n, 0, 0, deviation, seed, 0);
  return x;
}
inline Ids random_ids(Index n, Index below, std::uint64_t seed) {
  Ids ids(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < ids.size(); ++i)
    ids[i] = static_cast<std::int32_t>(
        philox4x32({static_cast<std::uint32_t>(i), 0, 0, 0}, philox_key(seed))[0] % below);
  return ids;
}
template <class Numbers>
Doubles widen(const Numbers& x) {
  return Doubles(x.begin(), x.end());
}

// Frobenius norm of the difference over that of the reference.
template <class A>
double distance(const A& x, const Doubles& reference) {
  if (x.size() != reference.size()) return INFINITY;
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double d = static_cast<double>(x[i]) - reference[i];
    difference += d * d;
    norm += reference[i] * reference[i];
  }
  return difference == 0 ? 0 : std::sqrt(difference / (norm == 0 ? 1 : norm));
}

// d(sum of f(x) * weight)/dx by central differences, in double: error about h^2 = 1e-10 relative.
inline Doubles finite_differences(const std::function<Doubles(const Doubles&)>& f, Doubles x,
                                  const Doubles& weight) {
  const double h = 1e-5;
  const auto objective = [&] {
    const Doubles y = f(x);
    double sum = 0;
    for (std::size_t i = 0; i < y.size(); ++i) sum += y[i] * weight[i];
    return sum;
  };
  Doubles gradient(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double at = x[i];
    x[i] = at + h;
    const double above = objective();
    x[i] = at - h;
    const double below = objective();
    x[i] = at;
    gradient[i] = (above - below) / (2 * h);
  }
  return gradient;
}

// What the tests run on; machines.cpp says for the CPU, tests/cuda/machines.cpp for the GPU.
// Runs body(ops) on every variant of the backend: instruction sets and teams, or orders of threads.
void on_every_machine(const std::function<void(Ops&)>& body);
// One of them, the best.
std::unique_ptr<Ops> test_ops();

}  // namespace chimera::test
