// Sums of squares of many tensors in double: a block per 4,096 elements, which it looks up in the
// table; then a block per tensor adds the blocks in order, so that a tensor that is cut at blocks
// has the same sum.
#include "ops/kernels.h"
#include "ops/packed.h"
#include "ops/reduce.h"
#include "tensor_of_block.h"

namespace chimera::cuda {
namespace {

__global__ void __launch_bounds__(kThreads)
    block_squares_kernel(double* partial, const SumEntry* entries, int count) {
  constexpr int W = kPack<float>;
  __shared__ double warps[kThreads / kWarp];
  const SumEntry e =
      entries[tensor_of_block(count, blockIdx.x, [&](int i) { return entries[i].block; })];
  const Index first = (blockIdx.x - e.block) * kSumBlock;
  const Index end = first + kSumBlock < e.n ? first + kSumBlock : e.n;
  double sum = 0;
#pragma unroll
  for (int turn = 0; turn < kSumBlock / (kThreads * W); ++turn) {
    const Index i = first + (turn * kThreads + static_cast<int>(threadIdx.x)) * W;
    if (i >= end) break;
    float v[W];
    load(v, e.x + i, extent_of(end - i, e.wide));
#pragma unroll
    for (int k = 0; k < W; ++k) sum += static_cast<double>(v[k]) * static_cast<double>(v[k]);
  }
  sum = block_sum(sum, warps);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

// A block per entry. Thread 0 adds; the others bring the numbers close.
__global__ void __launch_bounds__(kThreads)
    add_blocks_kernel(double* sums, const double* partial, const SumEntry* entries, int count,
                      Index blocks, const BadId* found, int words) {
  __shared__ double near[kThreads];
  const int i = static_cast<int>(blockIdx.x);
  const Index begin = entries[i].block, end = i + 1 < count ? entries[i + 1].block : blocks;
  double sum = entries[i].before;
  for (Index first = begin; first < end; first += kThreads) {
    const int rest = end - first < kThreads ? static_cast<int>(end - first) : kThreads;
    __syncthreads();
    near[threadIdx.x] = static_cast<int>(threadIdx.x) < rest ? partial[first + threadIdx.x] : 0.0;
    __syncthreads();
    if (threadIdx.x == 0)
      for (int k = 0; k < rest; ++k) sum += near[k];
  }
  if (threadIdx.x == 0) sums[i] = sum;
  if (i == 0 && static_cast<int>(threadIdx.x) < words)
    reinterpret_cast<BadId*>(sums + count)[threadIdx.x] = found[threadIdx.x];
}

}  // namespace

void sum_squares(double* sums, double* partial, const SumEntry* entries, int count, Index blocks,
                 const BadId* found, int words, cudaStream_t stream) {
  if (count == 0) return;
  if (blocks > 0)
    launch(block_squares_kernel, narrow<unsigned>(blocks), kThreads, 0, stream, partial, entries,
           count);
  launch(add_blocks_kernel, static_cast<unsigned>(count), kThreads, 0, stream, sums, partial,
         entries, count, blocks, found, words);
}

}  // namespace chimera::cuda
