// AdamW in one pass: 28 bytes per parameter, so memory bandwidth is the limit.
#include "kernels.h"
#include "packed.h"

namespace chimera::cuda {
namespace {

__global__ void __launch_bounds__(kThreads)
    adamw_kernel(float* param, float* m, float* v, const float* grad, AdamWNumbers s, Index n,
                 bool wide) {
  constexpr int W = kPack<float>;
  const Index i = thread_index() * W;
  if (i >= n) return;
  const Extent extent = extent_of(n - i, wide);
  float p[W], first[W], second[W], g[W];
  load(p, param + i, extent);
  load(first, m + i, extent);
  load(second, v + i, extent);
  load(g, grad + i, extent);
#pragma unroll
  for (int k = 0; k < W; ++k) {
    g[k] *= s.grad_scale;
    first[k] = first[k] * s.beta1 + g[k] * (1.0f - s.beta1);
    second[k] = second[k] * s.beta2 + g[k] * g[k] * (1.0f - s.beta2);
    const float step =
        (first[k] * s.m_correction) / (sqrtf(second[k] * s.v_correction) + s.epsilon);
    p[k] = p[k] * s.decay_factor - step * s.rate;
  }
  store(param + i, p, extent);
  store(m + i, first, extent);
  store(v + i, second, extent);
}

}  // namespace

void adamw(float* param, float* m, float* v, const float* grad, const AdamWNumbers& numbers,
           Index n, cudaStream_t stream) {
  if (n == 0) return;
  launch(adamw_kernel, blocks_for(ceil_div<Index>(n, kPack<float>)), kThreads, 0, stream, param, m,
         v, grad, numbers, n, aligned(param, m, v, grad));
}

}  // namespace chimera::cuda
