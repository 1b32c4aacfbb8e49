#pragma once
// One rank's part in an OrderedSum, and what it must give.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "chimera/comm/collectives.h"

namespace chimera::test {

// Contribution i, the same on whichever rank draws it; magnitudes from 1e-9 to 1e9, so that any
// other order of addition gives other bits.
inline std::vector<float> contribution(std::size_t i, Index elements, unsigned seed) {
  std::mt19937 draw(seed * 1000 + static_cast<unsigned>(i));
  std::vector<float> values(static_cast<std::size_t>(elements));
  for (float& v : values)
    v = std::ldexp(static_cast<float>(draw() % 20001) - 10000.0f,
                   static_cast<int>(draw() % 60) - 30);
  return values;
}

inline std::vector<float> serial_sum(std::size_t contributions, Index elements, unsigned seed) {
  std::vector<float> sum = contribution(0, elements, seed);
  for (std::size_t i = 1; i < contributions; ++i) {
    const std::vector<float> next = contribution(i, elements, seed);
    for (std::size_t k = 0; k < sum.size(); ++k) sum[k] += next[k];
  }
  return sum;
}

// Bits, so that also zeros keep their sign.
inline bool equal_bits(std::span<const float> a, std::span<const float> b) {
  return std::ranges::equal(std::as_bytes(a), std::as_bytes(b));
}

struct Part {
  // `cut`: a number of elements or borders.
  template <class Cut>
  Part(Communicator& comm, int channel, const std::vector<int>& contributors, Cut cut,
       unsigned seed_)
      : count(contributors.size()), seed(seed_), sum(comm, channel, contributors, std::move(cut)) {
    result.resize(static_cast<std::size_t>(sum.elements()));
    for (std::size_t i = 0; i < count; ++i)
      if (contributors[i] == comm.rank()) mine.push_back(contribution(i, sum.elements(), seed));
    for (auto& c : mine) pointers.push_back(c.data());
    scratch.resize(static_cast<std::size_t>(sum.scratch_elements()));
  }
  void start(bool in_place) {
    target = in_place ? pointers[0] : result.data();
    sum.start(pointers, target, scratch.data());
  }
  void wait() { sum.wait("the sum"); }
  void check() const {
    const std::vector<float> expected = serial_sum(count, sum.elements(), seed);
    ENSURE(equal_bits(expected, {target, expected.size()}), "the sum of ", count,
           " contributions of ", sum.elements(), " elements (seed ", seed,
           ") is not bitwise the serial sum");
  }

  std::size_t count;
  unsigned seed;
  std::vector<std::vector<float>> mine;
  std::vector<float*> pointers;
  std::vector<float> result, scratch;
  float* target = nullptr;
  OrderedSum sum;
};

}  // namespace chimera::test
