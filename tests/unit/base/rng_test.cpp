#include "chimera/base/rng.h"

#include <cmath>
#include <set>
#include <vector>

#include "support/support.h"

using namespace chimera;

// Known-answer vectors of Random123's kat_vectors for philox4x32-10.
TEST_CASE("philox4x32 gives the published values") {
  CHECK(philox4x32({0, 0, 0, 0}, {0, 0}) ==
        PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}) ==
        PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("permute_index is a permutation for every size, and differs between epochs") {
  for (Index size : {1, 2, 3, 5, 16, 17, 100, 257}) {
    std::set<Index> seen;
    for (Index i = 0; i < size; ++i) seen.insert(permute_index(i, size, 7, 3));
    CHECK(seen.size() == static_cast<std::size_t>(size));
    CHECK(*seen.rbegin() == size - 1);
  }
  int moved = 0;
  for (Index i = 0; i < 100; ++i)
    moved += permute_index(i, 100, 7, 0) != permute_index(i, 100, 7, 1);
  CHECK(moved > 80);
}

TEST_CASE("fill_normal has the asked mean and deviation and does not depend on the split") {
  std::vector<float> whole(20000), parts(20000);
  fill_normal(whole.data(), 20000, 0, 1.0f, 0.5f, 11, 4);
  fill_normal(parts.data(), 777, 0, 1.0f, 0.5f, 11, 4);
  fill_normal(parts.data() + 777, 20000 - 777, 777, 1.0f, 0.5f, 11, 4);
  CHECK(whole == parts);
  double sum = 0, squares = 0;
  for (float v : whole) sum += v, squares += v * v;
  const double mean = sum / 20000, deviation = std::sqrt(squares / 20000 - mean * mean);
  CHECK(std::abs(mean - 1.0) < 5 * 0.5 / std::sqrt(20000.0));  // five standard errors
  CHECK(std::abs(deviation - 0.5) < 5 * 0.5 / std::sqrt(2 * 20000.0));
}
