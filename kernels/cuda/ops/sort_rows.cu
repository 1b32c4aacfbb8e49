// Stable radix sort of rows by token. Each digit: tiles count their rows by digit, the counts
// become places, tiles move their rows there. Integer atomics count, so no order of threads shows.
#include "sort_rows.h"

#include <bit>

#include "device/scratch.h"
#include "packed.h"
#include "reduce.h"

namespace chimera::cuda {
namespace {

constexpr int kDigitBits = 8;
constexpr int kDigits = 1 << kDigitBits;  // a thread each
constexpr int kSortThreads = kDigits, kSortWarps = kSortThreads / kWarp;
constexpr Index kTileRows = 8 * kSortThreads;

// Rows in the order so far (null: as they come) and the digit to sort by.
struct Digits {
  const std::int32_t *tokens, *order;
  int shift;
  Index R, V;
  __device__ Index row(Index place) const { return order == nullptr ? place : order[place]; }
  __device__ int of(Index r) const { return token_again(tokens, r, V) >> shift & (kDigits - 1); }
};

// counts (digits, tiles) of a block's tile.
__global__ void __launch_bounds__(kSortThreads)
    count_digits_kernel(std::int32_t* counts, Digits digits, BadId* bad) {
  __shared__ std::int32_t own[kDigits];
  own[threadIdx.x] = 0;
  __syncthreads();
  const Index first = static_cast<Index>(blockIdx.x) * kTileRows;
  for (Index i = first + threadIdx.x; i < first + kTileRows && i < digits.R; i += kSortThreads) {
    const Index r = digits.row(i);
    if (bad != nullptr) token_at(digits.tokens, r, digits.V, bad);
    atomicAdd(own + digits.of(r), 1);
  }
  __syncthreads();
  counts[static_cast<Index>(threadIdx.x) * gridDim.x + blockIdx.x] = own[threadIdx.x];
}

// Each count becomes the sum of those before it. One block, a thread per digit.
__global__ void __launch_bounds__(kSortThreads)
    sum_counts_kernel(std::int32_t* counts, Index tiles) {
  __shared__ std::int32_t totals[kDigits];
  std::int32_t* own = counts + static_cast<Index>(threadIdx.x) * tiles;
  std::int32_t total = 0;
  for (Index tile = 0; tile < tiles; ++tile) total += own[tile];
  totals[threadIdx.x] = total;
  __syncthreads();
  std::int32_t before = 0;
  for (unsigned digit = 0; digit < threadIdx.x; ++digit) before += totals[digit];
  for (Index tile = 0; tile < tiles; ++tile) {
    const std::int32_t count = own[tile];
    own[tile] = before;
    before += count;
  }
}

// The lanes of the warp whose digit is this lane's, among those that have one.
__device__ unsigned lanes_of(int digit, bool here) {
  unsigned lanes = __ballot_sync(kAllLanes, here);
#pragma unroll
  for (int bit = 0; bit < kDigitBits; ++bit) {
    const bool set = (digit >> bit & 1) != 0;
    const unsigned with = __ballot_sync(kAllLanes, set);
    lanes &= set ? with : ~with;
  }
  return lanes;
}

// Moves the rows of a tile to their places, as many at a time as there are threads.
__global__ void __launch_bounds__(kSortThreads)
    move_rows_kernel(std::int32_t* sorted, const std::int32_t* places, Digits digits) {
  __shared__ std::int32_t next[kSortWarps][kDigits];  // of each warp's rows, then their places
  const int lane = static_cast<int>(threadIdx.x) % kWarp,
            warp = static_cast<int>(threadIdx.x) / kWarp;
  std::int32_t place = places[static_cast<Index>(threadIdx.x) * gridDim.x + blockIdx.x];
  const Index first = static_cast<Index>(blockIdx.x) * kTileRows;
  for (Index begin = first; begin < first + kTileRows && begin < digits.R; begin += kSortThreads) {
    const Index i = begin + threadIdx.x;
    const bool here = i < digits.R;
    const Index r = here ? digits.row(i) : 0;
    const int digit = here ? digits.of(r) : 0;
#pragma unroll
    for (int w = 0; w < kSortWarps; ++w) next[w][threadIdx.x] = 0;
    __syncthreads();
    const unsigned lanes = lanes_of(digit, here);
    const int rank = __popc(lanes & ((1u << lane) - 1));
    if (here && rank == 0) next[warp][digit] = __popc(lanes);
    __syncthreads();
#pragma unroll
    for (int w = 0; w < kSortWarps; ++w) {  // this thread's digit
      const std::int32_t count = next[w][threadIdx.x];
      next[w][threadIdx.x] = place;
      place += count;
    }
    __syncthreads();
    if (here) sorted[next[warp][digit] + rank] = static_cast<std::int32_t>(r);
    __syncthreads();
  }
}

}  // namespace

const std::int32_t* sort_rows(const std::int32_t* tokens, BadId* bad, Index R, Index V,
                              Scratch& scratch, cudaStream_t stream) {
  const Index tiles = ceil_div(R, kTileRows);
  std::int32_t* memory = scratch.get<std::int32_t>(2 * R + kDigits * tiles);
  std::int32_t* orders[2] = {memory, memory + R};
  std::int32_t* counts = memory + 2 * R;
  const auto blocks = narrow<unsigned>(tiles);
  const int bits = std::max(1, static_cast<int>(std::bit_width(static_cast<std::uint64_t>(V - 1))));
  Digits digits{tokens, nullptr, 0, narrow<std::int32_t>(R), V};
  for (int turn = 0; digits.shift < bits; ++turn, digits.shift += kDigitBits) {
    launch(count_digits_kernel, blocks, kSortThreads, 0, stream, counts, digits,
           turn == 0 ? bad : nullptr);
    launch(sum_counts_kernel, 1, kSortThreads, 0, stream, counts, tiles);
    launch(move_rows_kernel, blocks, kSortThreads, 0, stream, orders[turn % 2], counts, digits);
    digits.order = orders[turn % 2];
  }
  return digits.order;
}

}  // namespace chimera::cuda
