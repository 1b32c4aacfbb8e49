#pragma once
// Stochastic rounding of weights: one of the two 16-bit neighbours of a float, the farther one with
// the probability that makes the mean exact. A function of placement-free things alone; the
// specification of every backend.
#include "chimera/base/rng.h"
#include "chimera/tensor/half.h"

namespace chimera {

// Random words of the elements 4 * block ... 4 * block + 3 of parameter `order` in step t: philox
// of key seed, in counters that no dropout mask uses (its last word is below 2^31).
constexpr PhiloxBlock rounding_words(std::uint64_t seed, Index t, Index order, Index block) {
  const auto step = static_cast<std::uint64_t>(t);
  return philox4x32(
      {static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(step),
       static_cast<std::uint32_t>(step >> 32), 0x80000000u | static_cast<std::uint32_t>(order)},
      philox_key(seed));
}

// The upper 16 bits of `word` against the 16 that bf16 has not.
inline std::uint16_t stochastic_bf16(float x, std::uint32_t word) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  if ((bits & 0x7fffffffu) >= 0x7f800000u) return to_bf16(x);  // infinity, NaN
  return static_cast<std::uint16_t>((bits + (word >> 16)) >> 16);
}

// The upper 13 bits of `word` against those that fp16 has not; below fp16's normal numbers the
// upper 24 against the rest of x beyond multiples of 2^-24.
inline std::uint16_t stochastic_f16(float x, std::uint32_t word) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t sign = bits >> 16 & 0x8000u, rest = bits & 0x7fffffffu;
  if (rest >= 0x47800000u) return to_f16(x);  // from 2^16 on: infinity, NaN
  if (rest >= 0x38800000u)                    // 2^-14
    return static_cast<std::uint16_t>(sign | (rest + (word >> 19) - 0x38000000u) >> 13);
  const float units = std::bit_cast<float>(rest) * 0x1p24f;  // below 1,024
  const auto whole = static_cast<std::uint32_t>(units);
  const bool up = units - static_cast<float>(whole) > uniform_float(word);
  return static_cast<std::uint16_t>(sign | (whole + (up ? 1 : 0)));
}

}  // namespace chimera
