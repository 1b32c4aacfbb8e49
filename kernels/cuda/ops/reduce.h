#pragma once
// Sums and maxima over a warp or a block, always combined in the same order.
#include "device/port.h"

namespace chimera::cuda {

constexpr int kWarp = 32;
constexpr unsigned kAllLanes = 0xffffffffu;

// Every lane gets the result: combined pairwise, at distances 16, 8, 4, 2, 1.
template <class N>
__device__ N warp_sum(N x) {
  for (int distance = kWarp / 2; distance > 0; distance /= 2)
    x += __shfl_xor_sync(kAllLanes, x, distance);
  return x;
}
// A NaN does not win: fmaxf prefers numbers.
__device__ inline float warp_max(float x) {
  for (int distance = kWarp / 2; distance > 0; distance /= 2)
    x = fmaxf(x, __shfl_xor_sync(kAllLanes, x, distance));
  return x;
}

// The same over a block of whole warps; `warps` is shared, one entry per warp, and may be used
// again after the call.
template <class N>
__device__ N block_sum(N x, N* warps) {
  x = warp_sum(x);
  if (threadIdx.x % kWarp == 0) warps[threadIdx.x / kWarp] = x;
  __syncthreads();
  N total = 0;
  for (unsigned w = 0; w < blockDim.x / kWarp; ++w) total += warps[w];
  __syncthreads();
  return total;
}
__device__ inline float block_max(float x, float* warps) {
  x = warp_max(x);
  if (threadIdx.x % kWarp == 0) warps[threadIdx.x / kWarp] = x;
  __syncthreads();
  float best = warps[0];
  for (unsigned w = 1; w < blockDim.x / kWarp; ++w) best = fmaxf(best, warps[w]);
  __syncthreads();
  return best;
}

}  // namespace chimera::cuda
