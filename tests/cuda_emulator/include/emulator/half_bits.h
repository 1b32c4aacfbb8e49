#pragma once
// bf16 and fp16 as 16 bits: conversions with the hardware's rounding (to nearest, ties to even).
#include <bit>
#include <cstdint>

namespace emulator {

// NaN becomes 0x7fff, as cvt.rn.bf16.f32 does; overflow becomes infinity.
constexpr std::uint16_t bf16_from_float(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fff;
  return static_cast<std::uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}
constexpr std::uint16_t bf16_from_float_toward_zero(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fff;
  return static_cast<std::uint16_t>(bits >> 16);
}
constexpr float float_from_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(std::uint32_t{bits} << 16);
}

constexpr std::uint16_t fp16_from_float(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return 0x7fff;
  if (magnitude >= 0x477ff000u)
    return static_cast<std::uint16_t>(sign | 0x7c00u);  // from 65,520 on
  // Below 2^-14 the result is a multiple of 2^-24, else it has 10 bits after the leading one.
  const std::uint32_t exponent = magnitude >> 23;
  if (exponent < 102) return static_cast<std::uint16_t>(sign);  // under 2^-25
  std::uint32_t significand = (magnitude & 0x7fffffu) | 0x800000u, result = 0, shift = 13;
  if (exponent < 113) {
    shift = 126 - exponent;
  } else {
    result = (exponent - 112) << 10;
    significand &= 0x7fffffu;
  }
  result += significand >> shift;
  const std::uint32_t rest = significand & ((1u << shift) - 1), half = 1u << (shift - 1);
  if (rest > half || (rest == half && (result & 1u))) ++result;  // may carry into the exponent
  return static_cast<std::uint16_t>(sign | result);
}
constexpr float float_from_fp16(std::uint16_t bits) {
  const std::uint32_t sign = std::uint32_t{bits & 0x8000u} << 16, magnitude = bits & 0x7fffu;
  if (magnitude >= 0x7c00u)
    return std::bit_cast<float>(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
  if (magnitude >= 0x400u) return std::bit_cast<float>(sign | ((magnitude << 13) + (112u << 23)));
  const float value = static_cast<float>(magnitude) * 0x1p-24f;
  return sign ? -value : value;
}

}  // namespace emulator
