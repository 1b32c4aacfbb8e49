#pragma once
// The order of threads, blocks and queued operations: nothing in a correct program depends on it.
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

namespace emulator {

// splitmix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA'14.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  std::uint64_t below(std::uint64_t n) { return next() % n; }

 private:
  std::uint64_t state_;
};

// A permutation of 0 … n - 1: ascending for seed 0, descending for seed 1, else shuffled.
inline void make_order(std::vector<unsigned>& order, std::size_t n, std::uint64_t seed,
                       Random& random) {
  order.resize(n);
  std::iota(order.begin(), order.end(), 0u);
  if (seed == 1) {
    for (std::size_t i = 0; i < n; ++i) order[i] = static_cast<unsigned>(n - 1 - i);
  } else if (seed > 1) {
    for (std::size_t i = n; i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
  }
}

// Of the threads of a block: the same, but shuffled either as wholes of warps, so that one warp
// runs ahead, or one by one, so that all are torn apart.
inline void make_thread_order(std::vector<unsigned>& order, std::size_t n, std::uint64_t seed,
                              Random& random) {
  make_order(order, n, seed, random);
  if (seed < 2 || random.below(3) == 0) return;
  std::vector<std::uint64_t> ranks((n + 31) / 32);
  for (std::uint64_t& rank : ranks) rank = random.next();
  std::ranges::stable_sort(order, {}, [&](unsigned thread) { return ranks[thread / 32]; });
}

}  // namespace emulator
