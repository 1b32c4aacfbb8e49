// Softmax cross entropy, a block per row: one pass for the maximum and the sum of exponentials, one
// that turns logits into gradients. Numbers are read one by one, neighbours by neighbouring
// threads: rows of a vocabulary of odd size do not begin at packs.
#include "kernels.h"
#include "packed.h"
#include "reduce.h"

namespace chimera::cuda {
namespace {

constexpr int kRowThreads = 512;
constexpr int kBatch = 8;  // numbers of a thread loaded before any is used

// The numbers of a row that belong to this thread, kBatch at a time: body(values, count).
template <class T, class Body>
__device__ void for_batches(const T* row, Index V, const Body& body) {
  for (Index i = threadIdx.x; i < V; i += kRowThreads * kBatch) {
    float x[kBatch];
    int count = 0;
#pragma unroll
    for (int k = 0; k < kBatch; ++k) {
      const Index at = i + k * kRowThreads;
      x[k] = at < V ? to_float(row[at]) : 0.0f;
      count += at < V;
    }
    body(i, x, count);
  }
}

struct Sums {
  float max;   // of the logits
  float exps;  // sum of exp(logit - max)
  float logits;
};

template <class T>
__device__ Sums sum_row(const T* row, Index V) {
  __shared__ float warps[kRowThreads / kWarp];
  Sums own{-INFINITY, 0, 0};
  for_batches(row, V, [&](Index, const float(&x)[kBatch], int count) {
    float best = own.max;
#pragma unroll
    for (int k = 0; k < kBatch; ++k)
      if (k < count) best = fmaxf(best, x[k]);
    // Nothing but -infinity so far: the terms below would be NaN, and are 0 beside any number.
    const float base = best == -INFINITY ? 0.0f : best;
    own.exps *= expf(own.max - base);
    own.max = best;
#pragma unroll
    for (int k = 0; k < kBatch; ++k)
      if (k < count) {
        own.exps += expf(x[k] - base);
        own.logits += x[k];
      }
  });
  const float max = block_max(own.max, warps);
  const float exps = own.exps == 0.0f ? 0.0f : own.exps * expf(own.max - max);
  return {max, block_sum(exps, warps), block_sum(own.logits, warps)};
}

template <class T>
__global__ void __launch_bounds__(kRowThreads)
    cross_entropy_kernel(float* losses, T* logits, const std::int32_t* targets, BadId* bad,
                         float smoothing, float scale, bool gradient, Index V) {
  const Index r = blockIdx.x;
  T* row = logits + r * V;
  Index target = targets[r];
  if (target < 0 || target >= V) {
    if (threadIdx.x == 0)
      atomicMin(bad, static_cast<BadId>(r) << 32 | static_cast<std::uint32_t>(target));
    target = 0;
  }
  const Sums sums = sum_row(row, V);
  const double s = static_cast<double>(smoothing), size = static_cast<double>(V);
  if (threadIdx.x == 0) {
    const double m = static_cast<double>(sums.max), log_sum = log(static_cast<double>(sums.exps));
    const double nll = m - static_cast<double>(to_float(row[target])) + log_sum;
    const double uniform =
        smoothing != 0 ? m - static_cast<double>(sums.logits) / size + log_sum : 0.0;
    losses[r] = static_cast<float>((1 - s) * nll + s * uniform);
  }
  if (!gradient) return;
  __syncthreads();  // the target's logit has been read
  const float factor = scale / sums.exps;
  const float shift = scale * smoothing / static_cast<float>(V);
  const float on_target = scale * (1 - smoothing);
  for_batches(row, V, [&](Index i, const float(&x)[kBatch], int count) {
#pragma unroll
    for (int k = 0; k < kBatch; ++k)
      if (k < count) {
        const Index at = i + k * kRowThreads;
        const float d = expf(x[k] - sums.max) * factor - shift;
        row[at] = from_float<T>(at == target ? d - on_target : d);
      }
  });
}

}  // namespace

template <class T>
void cross_entropy(float* losses, T* logits, const std::int32_t* targets, BadId* bad,
                   float smoothing, float scale, bool gradient, Index R, Index V,
                   cudaStream_t stream) {
  if (R == 0) return;
  launch(cross_entropy_kernel<T>, narrow<unsigned>(R), kRowThreads, 0, stream, losses, logits,
         targets, bad, smoothing, scale, gradient, V);
}

#define CHIMERA_CROSS_ENTROPY(T)                                                              \
  template void cross_entropy<T>(float*, T*, const std::int32_t*, BadId*, float, float, bool, \
                                 Index, Index, cudaStream_t);
CHIMERA_CROSS_ENTROPY(float)
CHIMERA_CROSS_ENTROPY(__nv_bfloat16)
CHIMERA_CROSS_ENTROPY(__half)

}  // namespace chimera::cuda
