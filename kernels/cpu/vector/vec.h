#pragma once
// Vectors of floats as wide as the instruction set of this translation unit, by GCC's vector
// extensions. Everything here has internal linkage on purpose: see kernels.h.
#include <stdint.h>
#include <string.h>
#if defined(__SSE2__)
#include <immintrin.h>
#endif

#include "kernels.h"

namespace {

using chimera::cpu::Index;

#if defined(__AVX512F__)
constexpr int kLanes = 16;
#elif defined(__AVX2__)
constexpr int kLanes = 8;
#else
constexpr int kLanes = 4;
#endif

typedef float Vec __attribute__((vector_size(4 * kLanes)));
typedef int32_t IVec __attribute__((vector_size(4 * kLanes)));
typedef uint32_t UVec __attribute__((vector_size(4 * kLanes)));
typedef uint64_t LVec __attribute__((vector_size(4 * kLanes)));  // half as many 64-bit lanes
typedef double DVec __attribute__((vector_size(4 * kLanes)));

#define CHIMERA_INLINE inline __attribute__((always_inline))

// How many lanes a load or store touches: all, or the first n of a tail (the rest reads as 0).
struct Full {};

CHIMERA_INLINE Vec splat(float x) { return x - Vec{}; }  // x - 0 is x, also for -0

CHIMERA_INLINE Vec load(const float* p, Full = {}) {
  Vec v;
  memcpy(&v, p, sizeof v);
  return v;
}
CHIMERA_INLINE void store(float* p, Vec v, Full = {}) { memcpy(p, &v, sizeof v); }
#if defined(__AVX512F__)
CHIMERA_INLINE __mmask16 first_lanes(int n) { return static_cast<__mmask16>((1u << n) - 1); }
CHIMERA_INLINE Vec load(const float* p, int n) {
  return (Vec)_mm512_maskz_loadu_ps(first_lanes(n), p);
}
CHIMERA_INLINE void store(float* p, Vec v, int n) {
  _mm512_mask_storeu_ps(p, first_lanes(n), (__m512)v);
}
#elif defined(__AVX2__)
CHIMERA_INLINE __m256i first_lanes(int n) { return (__m256i)(IVec{0, 1, 2, 3, 4, 5, 6, 7} < n); }
CHIMERA_INLINE Vec load(const float* p, int n) {
  return (Vec)_mm256_maskload_ps(p, first_lanes(n));
}
CHIMERA_INLINE void store(float* p, Vec v, int n) {
  _mm256_maskstore_ps(p, first_lanes(n), (__m256)v);
}
#else
CHIMERA_INLINE Vec load(const float* p, int n) {
  Vec v = {};
  memcpy(&v, p, sizeof(float) * static_cast<unsigned>(n));
  return v;
}
CHIMERA_INLINE void store(float* p, Vec v, int n) {
  memcpy(p, &v, sizeof(float) * static_cast<unsigned>(n));
}
#endif

// body(i, lanes) for each vector of [begin, end), the tail last.
template <class Body>
CHIMERA_INLINE void for_vectors(Index begin, Index end, const Body& body) {
  Index i = begin;
  for (; i + kLanes <= end; i += kLanes) body(i, Full{});
  if (i < end) body(i, static_cast<int>(end - i));
}

// Lanes beyond a tail replaced by x, so that they do not disturb a maximum or a sum.
CHIMERA_INLINE Vec fill_tail(Vec v, Full, float) { return v; }
CHIMERA_INLINE Vec fill_tail(Vec v, int n, float x) {
  for (int i = n; i < kLanes; ++i) v[i] = x;
  return v;
}

// Lanes combined pairwise, in an order that depends on the width alone.
CHIMERA_INLINE float sum_lanes(Vec v) {
  float a[kLanes];
  memcpy(a, &v, sizeof a);
  for (int half = kLanes / 2; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) a[i] += a[i + half];
  return a[0];
}
CHIMERA_INLINE float max_lanes(Vec v) {
  float best = v[0];
  for (int i = 1; i < kLanes; ++i) best = v[i] > best ? v[i] : best;
  return best;
}

// The larger of each lane; b where either is not a number.
CHIMERA_INLINE Vec max(Vec a, Vec b) { return a > b ? a : b; }

// 2^n P(r) with n = x / ln 2 rounded, r = x - n ln 2 with ln 2 in two parts, |r| <= ln(2) / 2, and
// P(r) = 1 + r + r^2 q(r) where q interpolates at Chebyshev nodes (relative error 1e-8 before
// rounding). The factor 2^n is 2^bias times `scale`: n = 128 needs a bias.
struct Power {
  Vec p, scale;
};
template <int kBias>
CHIMERA_INLINE Power exp_parts(Vec x) {
  const float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer in the low bits
  const Vec shifted = x * 1.44269502f + kRound;
  const Vec n = shifted - kRound;
  const Vec r = (x - n * 0.693115234375f) - n * 3.19461833e-05f;
  Vec q = splat(0.00139261836f);
  q = q * r + 0.00836317905f;
  q = q * r + 0.0416665546f;
  q = q * r + 0.16666577f;
  q = q * r + 0.5f;
  return {q * (r * r) + r + 1.0f,
          (Vec)(((UVec)shifted << 23) + static_cast<uint32_t>((127 - kBias) << 23))};
}

// exp(x) within a few units in the last place. Below -86.5 the result is 0, not a subnormal; above
// 88.7228 infinite; not a number stays so.
CHIMERA_INLINE Vec exp(Vec x) {
  const Vec low = splat(-86.5f), high = splat(88.722839f);
  const Power y = exp_parts<1>(x < low ? low : (x > high ? high : x));
  return x < low ? splat(0) : (x > high ? splat(__builtin_inff()) : y.p * y.scale * 2.0f);
}
// The same for x <= 1, as in every softmax.
CHIMERA_INLINE Vec exp_upto_1(Vec x) {
  const Vec low = splat(-86.5f);
  const Power y = exp_parts<0>(x < low ? low : x);
  return x < low ? splat(0) : y.p * y.scale;
}

CHIMERA_INLINE Vec sqrt(Vec x) {
#if defined(__AVX512F__)
  return (Vec)_mm512_maskz_sqrt_ps(0xffff, (__m512)x);  // g++ 12 warns of the plain form
#elif defined(__AVX2__)
  return (Vec)_mm256_sqrt_ps((__m256)x);
#else
  for (int i = 0; i < kLanes; ++i) x[i] = __builtin_sqrtf(x[i]);
  return x;
#endif
}

}  // namespace
