#include "chimera/base/rng.h"

#include <bit>
#include <cmath>
#include <numbers>

namespace chimera {
namespace {

std::uint64_t feistel(std::uint64_t value, int half_bits, std::uint64_t seed, std::uint64_t epoch) {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits) - 1;
  std::uint64_t left = value >> half_bits, right = value & mask;
  for (std::uint32_t round = 0; round < 6; ++round) {
    const PhiloxBlock block =
        philox4x32({static_cast<std::uint32_t>(right), static_cast<std::uint32_t>(right >> 32),
                    static_cast<std::uint32_t>(epoch), round},
                   philox_key(seed));
    const std::uint64_t mixed = (std::uint64_t{block[1]} << 32 | block[0]) & mask;
    const std::uint64_t next = left ^ mixed;
    left = right;
    right = next;
  }
  return left << half_bits | right;
}

}  // namespace

Index permute_index(Index position, Index size, std::uint64_t seed, std::uint64_t epoch) {
  ENSURE(position >= 0 && position < size, "sample position ", position, " is outside 0 to ",
         size - 1);
  const int bits = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(size - 1)));
  const int half_bits = std::max(1, (bits + 1) / 2);
  auto value = static_cast<std::uint64_t>(position);
  do value = feistel(value, half_bits, seed, epoch);
  while (value >= static_cast<std::uint64_t>(size));
  return static_cast<Index>(value);
}

void fill_normal(float* out, Index n, Index first, float mean, float deviation, std::uint64_t seed,
                 std::uint64_t stream) {
  for (Index i = 0; i < n; ++i) {
    const auto index = static_cast<std::uint64_t>(first + i);
    const PhiloxBlock block =
        philox4x32({static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32),
                    static_cast<std::uint32_t>(stream), static_cast<std::uint32_t>(stream >> 32)},
                   philox_key(seed));
    const double u = 1.0 - uniform_double(block[0], block[1]);  // (0, 1]: its logarithm is finite
    const double angle = 2.0 * std::numbers::pi * uniform_double(block[2], block[3]);
    out[i] = mean + deviation * static_cast<float>(std::sqrt(-2.0 * std::log(u)) * std::cos(angle));
  }
}

}  // namespace chimera
