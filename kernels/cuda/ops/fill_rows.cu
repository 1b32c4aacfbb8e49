// A matrix product over no terms: the bias alone, or nothing.
#include "kernels.h"
#include "packed.h"

namespace chimera::cuda {
namespace {

template <class T>
__global__ void __launch_bounds__(kThreads)
    fill_rows_kernel(T* out, const T* bias, bool add, Index M, Index N) {
  const Index i = thread_index();
  if (i >= M * N) return;
  const float before = add ? to_float(out[i]) : 0.0f;
  out[i] = from_float<T>(before + (bias == nullptr ? 0.0f : to_float(bias[i % N])));
}

}  // namespace

template <class T>
void fill_rows(T* out, const T* bias, bool add, Index M, Index N, cudaStream_t stream) {
  launch(fill_rows_kernel<T>, blocks_for(checked_mul(M, N)), kThreads, 0, stream, out, bias, add, M,
         N);
}

template void fill_rows<float>(float*, const float*, bool, Index, Index, cudaStream_t);
template void fill_rows<__nv_bfloat16>(__nv_bfloat16*, const __nv_bfloat16*, bool, Index, Index,
                                       cudaStream_t);
template void fill_rows<__half>(__half*, const __half*, bool, Index, Index, cudaStream_t);

}  // namespace chimera::cuda
