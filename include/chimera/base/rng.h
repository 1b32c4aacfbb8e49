#pragma once
// Counter-based random numbers: a function of key and counter, with no state to save or to resume.
#include <array>
#include <cstdint>

#include "chimera/base/types.h"

namespace chimera {

// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC'11).
// The same function, in the same constants, is in the CPU and CUDA dropout kernels.
using PhiloxBlock = std::array<std::uint32_t, 4>;

constexpr PhiloxBlock philox4x32(PhiloxBlock counter, std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53u} * counter[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57u} * counter[2];
    counter = {
        static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(b),
        static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(a)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return counter;
}

constexpr std::array<std::uint32_t, 2> philox_key(std::uint64_t seed) {
  return {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)};
}

// Uniform in [0, 1) with 24 bits.
constexpr float uniform_float(std::uint32_t bits) {
  return static_cast<float>(bits >> 8) * 0x1p-24f;
}
// Uniform in [0, 1) with 53 bits.
constexpr double uniform_double(std::uint32_t high, std::uint32_t low) {
  return static_cast<double>((std::uint64_t{high} << 32 | low) >> 11) * 0x1p-53;
}

// A keyed permutation of 0 … size-1, computed and never stored: position -> element. A Feistel
// network on the next even power of two with cycle walking; every (seed, epoch) gives another
// permutation.
Index permute_index(Index position, Index size, std::uint64_t seed, std::uint64_t epoch);

// out[i] ~ mean + deviation * N(0, 1) by Box-Muller from counter (stream, i); independent of how
// the range is split over threads or workers. `first` is the index of out[0] within the stream.
void fill_normal(float* out, Index n, Index first, float mean, float deviation, std::uint64_t seed,
                 std::uint64_t stream);

}  // namespace chimera
