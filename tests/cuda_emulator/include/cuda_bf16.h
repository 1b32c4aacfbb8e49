#pragma once
// The emulator's <cuda_bf16.h>: the type, its pairs and the functions that the project uses.
// Arithmetic is done in float and rounded once, as the hardware's.
#include <cmath>
#include <limits>
#include <type_traits>

#include "emulator/half_bits.h"
#include "emulator/types.h"

struct __nv_bfloat16_raw {
  unsigned short x;
};

struct __nv_bfloat16 {
  __nv_bfloat16() = default;
  constexpr __nv_bfloat16(float value) : bits_(emulator::bf16_from_float(value)) {}
  constexpr __nv_bfloat16(double value) : __nv_bfloat16(narrowed(value)) {}
  template <class I>
  requires std::is_integral_v<I>
  constexpr __nv_bfloat16(I value) : __nv_bfloat16(narrowed(static_cast<double>(value))) {}
  constexpr __nv_bfloat16(const __nv_bfloat16_raw& raw) : bits_(raw.x) {}
  constexpr operator float() const { return emulator::float_from_bf16(bits_); }
  constexpr operator __nv_bfloat16_raw() const { return {bits_}; }

 private:
  // To odd in float, so that the second rounding is the only one that counts (Boldo, Melquiond
  // 2008).
  static constexpr float narrowed(double value) {
    const float nearest = static_cast<float>(value);
    const double back = nearest;
    if (back == value || value != value) return nearest;
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(nearest);
    if ((bits & 0x7fffffffu) == 0x7f800000u) return nearest;
    if (bits & 1u) return nearest;
    const bool away = (back < 0 ? -back : back) > (value < 0 ? -value : value);
    return std::bit_cast<float>(away ? bits - 1 : bits + 1);
  }
  unsigned short bits_;
};
static_assert(sizeof(__nv_bfloat16) == 2 && std::is_trivially_copyable_v<__nv_bfloat16>);
using nv_bfloat16 = __nv_bfloat16;

constexpr __nv_bfloat16 operator+(__nv_bfloat16 a, __nv_bfloat16 b) { return float(a) + float(b); }
constexpr __nv_bfloat16 operator-(__nv_bfloat16 a, __nv_bfloat16 b) { return float(a) - float(b); }
constexpr __nv_bfloat16 operator*(__nv_bfloat16 a, __nv_bfloat16 b) { return float(a) * float(b); }
constexpr __nv_bfloat16 operator/(__nv_bfloat16 a, __nv_bfloat16 b) { return float(a) / float(b); }
constexpr __nv_bfloat16 operator-(__nv_bfloat16 a) { return -float(a); }
constexpr __nv_bfloat16& operator+=(__nv_bfloat16& a, __nv_bfloat16 b) { return a = a + b; }
constexpr __nv_bfloat16& operator-=(__nv_bfloat16& a, __nv_bfloat16 b) { return a = a - b; }
constexpr __nv_bfloat16& operator*=(__nv_bfloat16& a, __nv_bfloat16 b) { return a = a * b; }
constexpr __nv_bfloat16& operator/=(__nv_bfloat16& a, __nv_bfloat16 b) { return a = a / b; }
constexpr bool operator==(__nv_bfloat16 a, __nv_bfloat16 b) { return float(a) == float(b); }
constexpr bool operator!=(__nv_bfloat16 a, __nv_bfloat16 b) { return float(a) != float(b); }
constexpr bool operator<(__nv_bfloat16 a, __nv_bfloat16 b) { return float(a) < float(b); }
constexpr bool operator>(__nv_bfloat16 a, __nv_bfloat16 b) { return float(a) > float(b); }
constexpr bool operator<=(__nv_bfloat16 a, __nv_bfloat16 b) { return float(a) <= float(b); }
constexpr bool operator>=(__nv_bfloat16 a, __nv_bfloat16 b) { return float(a) >= float(b); }

struct __align__(4) __nv_bfloat162 {
  __nv_bfloat16 x, y;
};

inline __nv_bfloat16 __float2bfloat16(float value) { return value; }
inline __nv_bfloat16 __float2bfloat16_rn(float value) { return value; }
inline float __bfloat162float(__nv_bfloat16 value) { return value; }
inline __nv_bfloat16 __double2bfloat16(double value) { return value; }
inline __nv_bfloat162 __float2bfloat162_rn(float value) { return {value, value}; }
inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) { return {x, y}; }
inline __nv_bfloat162 __float22bfloat162_rn(float2 v) { return {v.x, v.y}; }
inline float2 __bfloat1622float2(__nv_bfloat162 v) { return {v.x, v.y}; }
inline float __low2float(__nv_bfloat162 v) { return v.x; }
inline float __high2float(__nv_bfloat162 v) { return v.y; }
inline __nv_bfloat162 make_bfloat162(__nv_bfloat16 x, __nv_bfloat16 y) { return {x, y}; }
inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 value) {
  return static_cast<__nv_bfloat16_raw>(value).x;
}
inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short bits) { return __nv_bfloat16_raw{bits}; }
inline __nv_bfloat16 __hadd(__nv_bfloat16 a, __nv_bfloat16 b) { return a + b; }
inline __nv_bfloat16 __hsub(__nv_bfloat16 a, __nv_bfloat16 b) { return a - b; }
inline __nv_bfloat16 __hmul(__nv_bfloat16 a, __nv_bfloat16 b) { return a * b; }
inline __nv_bfloat16 __hfma(__nv_bfloat16 a, __nv_bfloat16 b, __nv_bfloat16 c) {
  return std::fma(double{float(a)}, double{float(b)}, double{float(c)});
}
inline __nv_bfloat162 __hadd2(__nv_bfloat162 a, __nv_bfloat162 b) { return {a.x + b.x, a.y + b.y}; }
inline __nv_bfloat162 __hmul2(__nv_bfloat162 a, __nv_bfloat162 b) { return {a.x * b.x, a.y * b.y}; }
inline __nv_bfloat162 __hfma2(__nv_bfloat162 a, __nv_bfloat162 b, __nv_bfloat162 c) {
  return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)};
}
inline bool __hisnan(__nv_bfloat16 a) { return std::isnan(float(a)); }
inline int __hisinf(__nv_bfloat16 a) { return std::isinf(float(a)) ? (float(a) < 0 ? -1 : 1) : 0; }
inline __nv_bfloat16 __hmax(__nv_bfloat16 a, __nv_bfloat16 b) {
  return std::fmax(float(a), float(b));
}
inline __nv_bfloat16 __hmin(__nv_bfloat16 a, __nv_bfloat16 b) {
  return std::fmin(float(a), float(b));
}
inline __nv_bfloat16 __float2bfloat16_rz(float value) {
  return __nv_bfloat16_raw{emulator::bf16_from_float_toward_zero(value)};
}
using nv_bfloat162 = __nv_bfloat162;
