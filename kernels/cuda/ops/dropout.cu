// out = residual + dropout(branch), and dropout alone. A thread owns a pack of a sample's elements
// and draws the Philox blocks that cover it.
#include <algorithm>

#include "kernels.h"
#include "packed.h"
#include "philox.h"

namespace chimera::cuda {
namespace {

constexpr Index kGridRows = 65535;  // the largest y of a grid

template <class T, bool kResidual, bool kDropout>
__global__ void __launch_bounds__(kThreads)
    dropout_add_kernel(T* out, const T* residual, const T* branch, Mask mask, Index samples,
                       Index size, bool wide) {
  constexpr int W = kPack<T>;
  const Index e = thread_index() * W;
  if (e >= size) return;
  const Extent extent = extent_of(size - e, wide);
  for (Index b = blockIdx.y; b < samples; b += gridDim.y) {
    const Index at = b * size + e;
    Raw<T, W> raw_branch, raw_residual;
    load_raw(raw_branch, branch + at, extent);
    if constexpr (kResidual) load_raw(raw_residual, residual + at, extent);
    float x[W];
    unpack(x, raw_branch);
    if constexpr (kDropout) {
      float keep[W];
      keep_scales(keep, static_cast<std::uint64_t>(e),
                  static_cast<std::uint64_t>(mask.first_sample + b), mask);
#pragma unroll
      for (int k = 0; k < W; ++k) x[k] *= keep[k];
    }
    if constexpr (kResidual) {
      float r[W];
      unpack(r, raw_residual);
#pragma unroll
      for (int k = 0; k < W; ++k) x[k] = r[k] + x[k];
    }
    store(out + at, x, extent);
  }
}

}  // namespace

template <class T>
void dropout_add(T* out, const T* residual, const T* branch, const Mask& mask, Index samples,
                 Index size, cudaStream_t stream) {
  if (samples == 0 || size == 0) return;
  if (mask.threshold == 0) size *= std::exchange(samples, 1);  // one long sample
  const bool wide = aligned(out, residual, branch) && (samples == 1 || size % kPack<T> == 0);
  const auto kernel = residual != nullptr
                          ? (mask.threshold != 0 ? dropout_add_kernel<T, true, true>
                                                 : dropout_add_kernel<T, true, false>)
                          : (mask.threshold != 0 ? dropout_add_kernel<T, false, true>
                                                 : dropout_add_kernel<T, false, false>);
  const dim3 grid(blocks_for(ceil_div<Index>(size, kPack<T>)),
                  static_cast<unsigned>(std::min(samples, kGridRows)));
  launch(kernel, grid, kThreads, 0, stream, out, residual, branch, mask, samples, size, wide);
}

template void dropout_add<float>(float*, const float*, const float*, const Mask&, Index, Index,
                                 cudaStream_t);
template void dropout_add<__nv_bfloat16>(__nv_bfloat16*, const __nv_bfloat16*, const __nv_bfloat16*,
                                         const Mask&, Index, Index, cudaStream_t);
template void dropout_add<__half>(__half*, const __half*, const __half*, const Mask&, Index, Index,
                                  cudaStream_t);

}  // namespace chimera::cuda
