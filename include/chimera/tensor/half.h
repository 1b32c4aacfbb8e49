#pragma once
// 16-bit numbers on the host, by their bits: bf16 (fp32's exponent, 7 bits of fraction) and IEEE's
// fp16 (5 bits of exponent, 10 of fraction). Rounded to nearest, ties to even; too large becomes
// infinity; a NaN stays one.
#include <bit>
#include <cstdint>

#include "chimera/tensor/tensor.h"

namespace chimera {

inline float from_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(std::uint32_t{bits} << 16);
}
inline std::uint16_t to_bf16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>(bits >> 16 | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}
float from_f16(std::uint16_t bits);
std::uint16_t to_f16(float x);

// x of F32, BF16 or F16 as fp32, and fp32 rounded into out; `x.size()` (`out.size()`) numbers.
void widen(float* out, const Tensor& x);
void round_into(const Tensor& out, const float* x);

// The largest relative error of rounding to the type: 2^-24, 2^-8 (bf16), 2^-11 (fp16).
double rounding_unit(DType type);
// "fp32", "bf16", "fp16", as precision.compute; UsageError for anything else.
DType parse_compute_type(const std::string& name);

}  // namespace chimera
