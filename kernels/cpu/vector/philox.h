#pragma once
// Dropout masks: philox4x32-10 (base/rng.h is the specification), several blocks at once, each
// block's four words in the low halves of four vectors of 64-bit lanes.
#include "vec.h"

namespace {

using chimera::cpu::Mask;

constexpr int kBlocks = kLanes / 2;  // blocks computed at once

// The product of the low 32 bits of each lane.
CHIMERA_INLINE LVec multiply_low(LVec a, LVec b) {
#if defined(__AVX512F__)
  return (LVec)_mm512_maskz_mul_epu32(0xff, (__m512i)a, (__m512i)b);
#elif defined(__AVX2__)
  return (LVec)_mm256_mul_epu32((__m256i)a, (__m256i)b);
#elif defined(__SSE2__)
  return (LVec)_mm_mul_epu32((__m128i)a, (__m128i)b);
#else
  return (a & 0xffffffffu) * (b & 0xffffffffu);
#endif
}

struct Words {
  LVec word[4];  // only the low halves mean something
};

// Blocks whose first counter word is `counter`, for one sample.
CHIMERA_INLINE Words philox(LVec counter, uint64_t sample, const Mask& mask) {
  const LVec m0 = LVec{} + 0xD2511F53u, m1 = LVec{} + 0xCD9E8D57u;
  LVec c0 = counter, c1 = LVec{} + (sample & 0xffffffffu), c2 = LVec{} + (sample >> 32),
       c3 = LVec{} + mask.stream;
  uint32_t key0 = mask.key[0], key1 = mask.key[1];
  for (int round = 0; round < 10; ++round) {
    const LVec a = multiply_low(m0, c0), b = multiply_low(m1, c2);
    c0 = (b >> 32) ^ c1 ^ key0;
    c1 = b;
    c2 = (a >> 32) ^ c3 ^ key1;
    c3 = a;
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

CHIMERA_INLINE LVec block_lanes() {
  LVec v;
  for (int i = 0; i < kBlocks; ++i) v[i] = static_cast<uint64_t>(i);
  return v;
}

// Multipliers (0 or mask.scale) of the 2 * kLanes elements from 4 * block on, in element order.
CHIMERA_INLINE void dropout_scales(Vec (&out)[2], uint64_t block, uint64_t sample,
                                   const Mask& mask) {
  const Words w = philox(block_lanes() + block, sample, mask);
  const LVec low = LVec{} + 0xffffffffu;
  const LVec first = (w.word[0] & low) | (w.word[1] << 32);
  const LVec second = (w.word[2] & low) | (w.word[3] << 32);
  LVec take_low, take_high;
  for (int i = 0; i < kBlocks; ++i) {
    take_low[i] = static_cast<uint64_t>(i / 2 + (i % 2) * kBlocks);
    take_high[i] = static_cast<uint64_t>(kBlocks / 2 + i / 2 + (i % 2) * kBlocks);
  }
  const UVec bits[2] = {(UVec)__builtin_shuffle(first, second, take_low),
                        (UVec)__builtin_shuffle(first, second, take_high)};
  for (int i = 0; i < 2; ++i)
    out[i] = (IVec)(bits[i] >> 8) >= mask.threshold ? splat(mask.scale) : splat(0);
}

}  // namespace
