// Sums of squares in double, a block of threads per kSumBlock elements. A thread's elements do not
// depend on alignment, so neither do the bits.
#include "kernels.h"
#include "packed.h"
#include "reduce.h"

namespace chimera::cuda {
namespace {

template <class T>
__global__ void __launch_bounds__(kThreads)
    sum_squares_kernel(double* partial, const T* x, Index n, bool wide) {
  constexpr int W = kPack<T>;
  __shared__ double warps[kThreads / kWarp];
  const Index first = static_cast<Index>(blockIdx.x) * kSumBlock;
  const Index end = first + kSumBlock < n ? first + kSumBlock : n;
  double sum = 0;
  for (Index i = first + static_cast<Index>(threadIdx.x) * W; i < end; i += kThreads * W) {
    float v[W];
    load(v, x + i, extent_of(end - i, wide));
#pragma unroll
    for (int k = 0; k < W; ++k) sum += static_cast<double>(v[k]) * static_cast<double>(v[k]);
  }
  sum = block_sum(sum, warps);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

}  // namespace

template <class T>
void sum_squares(double* partial, const T* x, Index n, cudaStream_t stream) {
  if (n == 0) return;
  launch(sum_squares_kernel<T>, narrow<unsigned>(ceil_div(n, Index{kSumBlock})), kThreads, 0,
         stream, partial, x, n, aligned(x));
}

template void sum_squares<float>(double*, const float*, Index, cudaStream_t);
template void sum_squares<__nv_bfloat16>(double*, const __nv_bfloat16*, Index, cudaStream_t);
template void sum_squares<__half>(double*, const __half*, Index, cudaStream_t);

}  // namespace chimera::cuda
