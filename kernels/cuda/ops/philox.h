#pragma once
// Random numbers on the device: philox4x32-10, whose specification is chimera/base/rng.h. Which
// block of dropout belongs to which element is said in chimera/ops/numbers.h.
#include "chimera/ops/numbers.h"
#include "device/port.h"

namespace chimera::cuda {

__device__ inline uint4 philox(uint4 counter, std::uint32_t key0, std::uint32_t key1) {
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53u} * counter.x,
                        b = std::uint64_t{0xCD9E8D57u} * counter.z;
    counter = {
        static_cast<std::uint32_t>(b >> 32) ^ counter.y ^ key0, static_cast<std::uint32_t>(b),
        static_cast<std::uint32_t>(a >> 32) ^ counter.w ^ key1, static_cast<std::uint32_t>(a)};
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return counter;
}

// The four words of block `block` of a sample.
__device__ inline uint4 philox(std::uint64_t block, std::uint64_t sample, const Mask& mask) {
  return philox({static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(sample),
                 static_cast<std::uint32_t>(sample >> 32), mask.stream},
                mask.key[0], mask.key[1]);
}

// Multiplier of an element whose random word is `word`: 0 or mask.scale.
__device__ inline float keep_scale(std::uint32_t word, const Mask& mask) {
  return static_cast<std::int32_t>(word >> 8) >= mask.threshold ? mask.scale : 0.0f;
}

// Multipliers of the W elements of a sample from `element` on, a multiple of 4.
template <int W>
__device__ void keep_scales(float (&keep)[W], std::uint64_t element, std::uint64_t sample,
                            const Mask& mask) {
  static_assert(W % 4 == 0);
#pragma unroll
  for (int k = 0; k < W; k += 4) {
    const uint4 word = philox(element / 4 + static_cast<std::uint64_t>(k / 4), sample, mask);
    keep[k] = keep_scale(word.x, mask);
    keep[k + 1] = keep_scale(word.y, mask);
    keep[k + 2] = keep_scale(word.z, mask);
    keep[k + 3] = keep_scale(word.w, mask);
  }
}

}  // namespace chimera::cuda
