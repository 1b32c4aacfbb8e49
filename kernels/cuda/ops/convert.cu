// Between fp32 and 16-bit numbers, four at a time: 16 bytes of the one, 8 of the other.
#include "kernels.h"
#include "packed.h"

namespace chimera::cuda {
namespace {

template <class To, class From>
__global__ void __launch_bounds__(kThreads)
    convert_kernel(To* out, const From* x, Index n, bool wide) {
  constexpr int W = kPack<float>;
  const Index i = thread_index() * W;
  if (i >= n) return;
  const Extent extent = extent_of(n - i, wide);
  float v[W];
  load(v, x + i, extent);
  store(out + i, v, extent);
}

}  // namespace

template <class To, class From>
void convert(To* out, const From* x, Index n, cudaStream_t stream) {
  if (n == 0) return;
  launch(convert_kernel<To, From>, blocks_for(ceil_div<Index>(n, kPack<float>)), kThreads, 0,
         stream, out, x, n, aligned(out, x));
}

template void convert(__nv_bfloat16*, const float*, Index, cudaStream_t);
template void convert(__half*, const float*, Index, cudaStream_t);
template void convert(float*, const __nv_bfloat16*, Index, cudaStream_t);
template void convert(float*, const __half*, Index, cudaStream_t);

}  // namespace chimera::cuda
