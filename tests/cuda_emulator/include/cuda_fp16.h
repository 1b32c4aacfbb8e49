#pragma once
// The emulator's <cuda_fp16.h>: the type, its pairs and the functions that the project uses.
// Arithmetic is done in float and rounded once, as the hardware's.
#include <cmath>
#include <limits>
#include <type_traits>

#include "emulator/half_bits.h"
#include "emulator/types.h"

struct __half_raw {
  unsigned short x;
};

struct __half {
  __half() = default;
  constexpr __half(float value) : bits_(emulator::fp16_from_float(value)) {}
  constexpr __half(double value) : __half(narrowed(value)) {}
  template <class I>
  requires std::is_integral_v<I>
  constexpr __half(I value) : __half(narrowed(static_cast<double>(value))) {}
  constexpr __half(const __half_raw& raw) : bits_(raw.x) {}
  constexpr operator float() const { return emulator::float_from_fp16(bits_); }
  constexpr operator __half_raw() const { return {bits_}; }

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
static_assert(sizeof(__half) == 2 && std::is_trivially_copyable_v<__half>);
using half = __half;

constexpr __half operator+(__half a, __half b) { return float(a) + float(b); }
constexpr __half operator-(__half a, __half b) { return float(a) - float(b); }
constexpr __half operator*(__half a, __half b) { return float(a) * float(b); }
constexpr __half operator/(__half a, __half b) { return float(a) / float(b); }
constexpr __half operator-(__half a) { return -float(a); }
constexpr __half& operator+=(__half& a, __half b) { return a = a + b; }
constexpr __half& operator-=(__half& a, __half b) { return a = a - b; }
constexpr __half& operator*=(__half& a, __half b) { return a = a * b; }
constexpr __half& operator/=(__half& a, __half b) { return a = a / b; }
constexpr bool operator==(__half a, __half b) { return float(a) == float(b); }
constexpr bool operator!=(__half a, __half b) { return float(a) != float(b); }
constexpr bool operator<(__half a, __half b) { return float(a) < float(b); }
constexpr bool operator>(__half a, __half b) { return float(a) > float(b); }
constexpr bool operator<=(__half a, __half b) { return float(a) <= float(b); }
constexpr bool operator>=(__half a, __half b) { return float(a) >= float(b); }

struct __align__(4) __half2 {
  __half x, y;
};

inline __half __float2half(float value) { return value; }
inline __half __float2half_rn(float value) { return value; }
inline float __half2float(__half value) { return value; }
inline __half __double2half(double value) { return value; }
inline __half2 __float2half2_rn(float value) { return {value, value}; }
inline __half2 __floats2half2_rn(float x, float y) { return {x, y}; }
inline __half2 __float22half2_rn(float2 v) { return {v.x, v.y}; }
inline float2 __half22float2(__half2 v) { return {v.x, v.y}; }
inline float __low2float(__half2 v) { return v.x; }
inline float __high2float(__half2 v) { return v.y; }
inline __half2 make_half2(__half x, __half y) { return {x, y}; }
inline unsigned short __half_as_ushort(__half value) { return static_cast<__half_raw>(value).x; }
inline __half __ushort_as_half(unsigned short bits) { return __half_raw{bits}; }
inline __half __hadd(__half a, __half b) { return a + b; }
inline __half __hsub(__half a, __half b) { return a - b; }
inline __half __hmul(__half a, __half b) { return a * b; }
inline __half __hfma(__half a, __half b, __half c) {
  return std::fma(double{float(a)}, double{float(b)}, double{float(c)});
}
inline __half2 __hadd2(__half2 a, __half2 b) { return {a.x + b.x, a.y + b.y}; }
inline __half2 __hmul2(__half2 a, __half2 b) { return {a.x * b.x, a.y * b.y}; }
inline __half2 __hfma2(__half2 a, __half2 b, __half2 c) {
  return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)};
}
inline bool __hisnan(__half a) { return std::isnan(float(a)); }
inline int __hisinf(__half a) { return std::isinf(float(a)) ? (float(a) < 0 ? -1 : 1) : 0; }
inline __half __hmax(__half a, __half b) { return std::fmax(float(a), float(b)); }
inline __half __hmin(__half a, __half b) { return std::fmin(float(a), float(b)); }
using half2 = __half2;
