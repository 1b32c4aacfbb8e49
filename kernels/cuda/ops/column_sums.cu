// The gradient of a bias: column sums.
#include "column_sums.h"

namespace chimera::cuda {
namespace {

template <class T>
struct BiasTerms {
  const T* dy;
  Index N;
  __device__ void operator()(float (&term)[1][kPack<T>], Index r, Index c, Extent extent) const {
    load(term[0], dy + r * N + c, extent);
  }
};

}  // namespace

template <class T>
void bias_backward(float* dbias, const T* dy, Index R, Index N, Scratch& scratch,
                   cudaStream_t stream) {
  if (R == 0 || N == 0) return;
  const bool wide = N % kPack<T> == 0 && aligned(dy);
  add_column_sums<kPack<T>, 1>(dbias, nullptr, BiasTerms<T>{dy, N}, R, N, wide, scratch, stream);
}

template void bias_backward<float>(float*, const float*, Index, Index, Scratch&, cudaStream_t);
template void bias_backward<__nv_bfloat16>(float*, const __nv_bfloat16*, Index, Index, Scratch&,
                                           cudaStream_t);
template void bias_backward<__half>(float*, const __half*, Index, Index, Scratch&, cudaStream_t);

}  // namespace chimera::cuda
