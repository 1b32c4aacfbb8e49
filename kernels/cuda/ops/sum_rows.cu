// Sums of rows in double, a block per row.
#include "kernels.h"
#include "packed.h"
#include "reduce.h"

namespace chimera::cuda {
namespace {

__global__ void __launch_bounds__(kThreads)
    sum_rows_kernel(double* sums, const float* x, Index C, bool wide) {
  constexpr int W = kPack<float>;
  __shared__ double warps[kThreads / kWarp];
  const float* row = x + static_cast<Index>(blockIdx.x) * C;
  double sum = 0;
  for (Index c = static_cast<Index>(threadIdx.x) * W; c < C; c += kThreads * W) {
    float v[W];
    load(v, row + c, extent_of(C - c, wide));
#pragma unroll
    for (int k = 0; k < W; ++k) sum += static_cast<double>(v[k]);
  }
  sum = block_sum(sum, warps);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

}  // namespace

void sum_rows(double* sums, const float* x, Index R, Index C, cudaStream_t stream) {
  if (R == 0) return;
  launch(sum_rows_kernel, narrow<unsigned>(R), kThreads, 0, stream, sums, x, C,
         C % kPack<float> == 0 && aligned(x));
}

}  // namespace chimera::cuda
