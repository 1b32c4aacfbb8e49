// Rows that begin elsewhere: a block per row, a pack per thread.
#include "ops/kernels.h"
#include "ops/packed.h"

namespace chimera::cuda {
namespace {

template <class T>
__global__ void __launch_bounds__(kThreads)
    copy_2d_kernel(T* to, Index to_row, const T* from, Index from_row, Index C, bool wide_to,
                   bool wide_from) {
  constexpr int W = kPack<T>;
  to += static_cast<Index>(blockIdx.x) * to_row;
  from += static_cast<Index>(blockIdx.x) * from_row;
  for (Index c = static_cast<Index>(threadIdx.x) * W; c < C; c += kThreads * W) {
    Raw<T, W> raw;
    load_raw(raw, from + c, extent_of(C - c, wide_from));
    store_raw(to + c, raw, extent_of(C - c, wide_to));
  }
}

}  // namespace

template <class T>
void copy_2d(T* to, Index to_row, const T* from, Index from_row, Index R, Index C,
             cudaStream_t stream) {
  if (R == 0 || C == 0) return;
  launch(copy_2d_kernel<T>, narrow<unsigned>(R), kThreads, 0, stream, to, to_row, from, from_row, C,
         to_row % kPack<T> == 0 && aligned(to), from_row % kPack<T> == 0 && aligned(from));
}

template void copy_2d<float>(float*, Index, const float*, Index, Index, Index, cudaStream_t);
template void copy_2d<__nv_bfloat16>(__nv_bfloat16*, Index, const __nv_bfloat16*, Index, Index,
                                     Index, cudaStream_t);
template void copy_2d<__half>(__half*, Index, const __half*, Index, Index, Index, cudaStream_t);

}  // namespace chimera::cuda
