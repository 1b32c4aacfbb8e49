// A matrix product over no terms: the bias alone, or nothing.
#include "ops/kernels.h"
#include "ops/packed.h"

namespace chimera::cuda {
namespace {

template <class T>
__global__ void __launch_bounds__(kThreads)
    broadcast_bias_kernel(T* out, const T* bias, bool add, Index M, Index N) {
  const Index i = thread_index();
  if (i >= M * N) return;
  const float before = add ? to_float(out[i]) : 0.0f;
  out[i] = from_float<T>(before + (bias == nullptr ? 0.0f : to_float(bias[i % N])));
}

}  // namespace

template <class T>
void broadcast_bias(T* out, const T* bias, bool add, Index M, Index N, cudaStream_t stream) {
  launch(broadcast_bias_kernel<T>, blocks_for(checked_mul(M, N)), kThreads, 0, stream, out, bias,
         add, M, N);
}

template void broadcast_bias<float>(float*, const float*, bool, Index, Index, cudaStream_t);
template void broadcast_bias<__nv_bfloat16>(__nv_bfloat16*, const __nv_bfloat16*, bool, Index,
                                            Index, cudaStream_t);
template void broadcast_bias<__half>(__half*, const __half*, bool, Index, Index, cudaStream_t);

}  // namespace chimera::cuda
