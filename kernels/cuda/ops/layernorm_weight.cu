// The gradients of layer normalisation's gain and bias: column sums of dy * xhat and of dy.
#include "column_sums.h"

namespace chimera::cuda {
namespace {

template <class T>
struct WeightTerms {
  const float *mean, *rstd;
  const T *dy, *x;
  Index C;
  __device__ void operator()(float (&term)[2][kPack<T>], Index r, Index c, Extent extent) const {
    Raw<T, kPack<T>> raw_x, raw_dy;
    load_raw(raw_x, x + r * C + c, extent);
    load_raw(raw_dy, dy + r * C + c, extent);
    float xhat[kPack<T>];
    unpack(xhat, raw_x);
    unpack(term[1], raw_dy);
    const float m = mean[r], s = rstd[r];
#pragma unroll
    for (int k = 0; k < kPack<T>; ++k) term[0][k] = term[1][k] * ((xhat[k] - m) * s);
  }
};

}  // namespace

template <class T>
void layernorm_backward_weight(float* dgain, float* dbias, const float* mean, const float* rstd,
                               const T* dy, const T* x, Index R, Index C, Scratch& scratch,
                               cudaStream_t stream) {
  if (R == 0 || C == 0) return;
  const bool wide = C % kPack<T> == 0 && aligned(dy, x);
  add_column_sums<kPack<T>, 2>(dgain, dbias, WeightTerms<T>{mean, rstd, dy, x, C}, R, C, wide,
                               scratch, stream);
}

#define CHIMERA_LAYERNORM_WEIGHT(T)                                                                \
  template void layernorm_backward_weight<T>(float*, float*, const float*, const float*, const T*, \
                                             const T*, Index, Index, Scratch&, cudaStream_t);
CHIMERA_LAYERNORM_WEIGHT(float)
CHIMERA_LAYERNORM_WEIGHT(__nv_bfloat16)
CHIMERA_LAYERNORM_WEIGHT(__half)

}  // namespace chimera::cuda
