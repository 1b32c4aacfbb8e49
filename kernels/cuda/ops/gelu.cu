// GELU, tanh approximation, in the logistic form of kernels/cpu/vector/gelu.cpp.
#include "kernels.h"
#include "packed.h"

namespace chimera::cuda {
namespace {

constexpr float kTwoRoot = 1.5957691216f;  // 2 sqrt(2 / pi)
constexpr float kCubic = 0.044715f;

__device__ float gelu(float x) {
  const float minus_2u = x * (x * x * (-kTwoRoot * kCubic) - kTwoRoot);
  return x / (expf(minus_2u) + 1.0f);
}

__device__ float gelu_slope(float raw) {
  // Beyond 10 in magnitude s (1 - s) is 0 in fp32; without the clamp it would meet an infinite u'.
  const float x = raw > 10.0f ? 10.0f : (raw < -10.0f ? -10.0f : raw);
  const float square = x * x;
  const float e = expf(x * (square * (-kTwoRoot * kCubic) - kTwoRoot));
  const float s = 1.0f / (e + 1.0f);
  return s + x * (square * (3 * kTwoRoot * kCubic) + kTwoRoot) * (s * s * e);
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    gelu_forward_kernel(T* y, const T* x, Index n, bool wide) {
  constexpr int W = kPack<T>;
  const Index i = thread_index() * W;
  if (i >= n) return;
  const Extent extent = extent_of(n - i, wide);
  float v[W];
  load(v, x + i, extent);
#pragma unroll
  for (int k = 0; k < W; ++k) v[k] = gelu(v[k]);
  store(y + i, v, extent);
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    gelu_backward_kernel(T* dx, const T* dy, const T* x, Index n, bool wide) {
  constexpr int W = kPack<T>;
  const Index i = thread_index() * W;
  if (i >= n) return;
  const Extent extent = extent_of(n - i, wide);
  Raw<T, W> raw_x, raw_dy;
  load_raw(raw_x, x + i, extent);
  load_raw(raw_dy, dy + i, extent);
  float v[W], d[W];
  unpack(v, raw_x);
  unpack(d, raw_dy);
#pragma unroll
  for (int k = 0; k < W; ++k) d[k] *= gelu_slope(v[k]);
  store(dx + i, d, extent);
}

}  // namespace

template <class T>
void gelu_forward(T* y, const T* x, Index n, cudaStream_t stream) {
  if (n == 0) return;
  launch(gelu_forward_kernel<T>, blocks_for(ceil_div<Index>(n, kPack<T>)), kThreads, 0, stream, y,
         x, n, aligned(y, x));
}

template <class T>
void gelu_backward(T* dx, const T* dy, const T* x, Index n, cudaStream_t stream) {
  if (n == 0) return;
  launch(gelu_backward_kernel<T>, blocks_for(ceil_div<Index>(n, kPack<T>)), kThreads, 0, stream, dx,
         dy, x, n, aligned(dx, dy, x));
}

#define CHIMERA_GELU(T)                                             \
  template void gelu_forward<T>(T*, const T*, Index, cudaStream_t); \
  template void gelu_backward<T>(T*, const T*, const T*, Index, cudaStream_t);
CHIMERA_GELU(float)
CHIMERA_GELU(__nv_bfloat16)
CHIMERA_GELU(__half)

}  // namespace chimera::cuda
