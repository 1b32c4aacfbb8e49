#pragma once
// Counts, narrowing and division. Counts are 64-bit everywhere; every narrowing and every inexact
// division is visible at the call and throws instead of truncating.
#include <concepts>
#include <cstdint>
#include <limits>
#include <utility>

#include "chimera/base/check.h"

namespace chimera {

using Index = std::int64_t;

template <std::integral To, std::integral From>
constexpr To narrow(From value) {
  ENSURE(std::in_range<To>(value), "the number ", value, " does not fit in ", sizeof(To), " bytes");
  return static_cast<To>(value);
}

template <std::integral T>
constexpr T ceil_div(T a, T b) {
  return (a + b - 1) / b;
}

// a / b; throws unless b divides a.
template <std::integral T>
constexpr T div_exact(T a, T b) {
  ENSURE(b != 0 && a % b == 0, a, " is not divisible by ", b);
  return a / b;
}

template <std::integral T>
constexpr T round_up(T a, T multiple) {
  return ceil_div(a, multiple) * multiple;
}

// Checked 64-bit arithmetic for every size that comes from a file or a configuration.
constexpr Index checked_mul(Index a, Index b) {
  Index out = 0;
  ENSURE(!__builtin_mul_overflow(a, b, &out), "the size ", a, " x ", b, " overflows 64 bits");
  return out;
}
constexpr Index checked_add(Index a, Index b) {
  Index out = 0;
  ENSURE(!__builtin_add_overflow(a, b, &out), "the size ", a, " + ", b, " overflows 64 bits");
  return out;
}

}  // namespace chimera
