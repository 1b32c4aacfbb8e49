// Softmax cross entropy, a block per row: one pass for the maximum and the sum of exponentials, one
// that turns logits into gradients. GPT-2's vocabulary is odd, so rows do not begin at packs: a
// thread takes the packs of memory that the row lies in, the first and the last of them in part.
#include "kernels.h"
#include "packed.h"
#include "reduce.h"

namespace chimera::cuda {
namespace {

constexpr int kRowThreads = 512;
constexpr int kAtOnce = 4;  // packs of a thread that are on their way together

// The packs of a row of V numbers that begins `lead` numbers behind an address that may be moved at
// once.
template <class T>
struct RowPacks {
  T* base;
  int lead;
  Index V, count;
  __device__ RowPacks(T* row, Index size) : V(size) {
    lead = static_cast<int>(reinterpret_cast<std::uintptr_t>(row) % kPackBytes / sizeof(T));
    base = row - lead;
    count = (lead + V + kPack<T> - 1) / kPack<T>;
  }
  // Numbers first ... end - 1 of pack q are of the row; number k of it is column(q) + k.
  __device__ int first(Index q) const { return q == 0 ? lead : 0; }
  __device__ int end(Index q) const {
    const Index rest = lead + V - q * kPack<T>;
    return rest < kPack<T> ? static_cast<int>(rest) : kPack<T>;
  }
  __device__ Index column(Index q) const { return q * kPack<T> - lead; }
};

// body(q, x) on every pack of this thread, unpacked; what is not of the row is `outside`.
template <class T, class Body>
__device__ void for_packs(const RowPacks<T>& row, float outside, const Body& body) {
  constexpr int W = kPack<T>;
  for (Index from = threadIdx.x; from < row.count; from += kRowThreads * kAtOnce) {
    Raw<T, W> raw[kAtOnce];
#pragma unroll
    for (int b = 0; b < kAtOnce; ++b) {
      const Index q = from + b * kRowThreads;
      if (q >= row.count) continue;
      const T* p = row.base + q * W;
      if (row.first(q) == 0 && row.end(q) == W) {
        raw[b].word[0] = *reinterpret_cast<const uint4*>(p);
      } else {
        T x[W];
#pragma unroll
        for (int k = 0; k < W; ++k)
          x[k] = k >= row.first(q) && k < row.end(q) ? p[k] : from_float<T>(outside);
        memcpy(raw[b].word, static_cast<const void*>(x), sizeof x);
      }
    }
#pragma unroll
    for (int b = 0; b < kAtOnce; ++b) {
      const Index q = from + b * kRowThreads;
      if (q >= row.count) continue;
      float x[W];
      unpack(x, raw[b]);
      body(q, x);
    }
  }
}

struct Sums {
  float max;   // of the logits
  float exps;  // sum of exp(logit - max)
  float logits;
};

template <class T>
__device__ Sums sum_row(const RowPacks<T>& row) {
  constexpr int W = kPack<T>;
  __shared__ float warps[kRowThreads / kWarp];
  Sums own{-INFINITY, 0, 0};
  for_packs(row, -INFINITY, [&](Index q, const float(&x)[W]) {
    float best = own.max;
#pragma unroll
    for (int k = 0; k < W; ++k) best = fmaxf(best, x[k]);
    // Nothing but -infinity so far: the terms below would be NaN, and are 0 beside any number.
    const float base = best == -INFINITY ? 0.0f : best;
    own.exps *= expf(own.max - base);
    own.max = best;
#pragma unroll
    for (int k = 0; k < W; ++k) {
      own.exps += expf(x[k] - base);
      own.logits += k >= row.first(q) && k < row.end(q) ? x[k] : 0.0f;
    }
  });
  const float max = block_max(own.max, warps);
  const float exps = own.exps == 0.0f ? 0.0f : own.exps * expf(own.max - max);
  return {max, block_sum(exps, warps), block_sum(own.logits, warps)};
}

template <class T>
__device__ void store_part(const RowPacks<T>& row, Index q, const float (&x)[kPack<T>]) {
  constexpr int W = kPack<T>;
  T* p = row.base + q * W;
  if (row.first(q) == 0 && row.end(q) == W) return store(p, x, {W, true});
#pragma unroll
  for (int k = 0; k < W; ++k)
    if (k >= row.first(q) && k < row.end(q)) p[k] = from_float<T>(x[k]);
}

template <class T>
__global__ void __launch_bounds__(kRowThreads)
    cross_entropy_kernel(float* losses, T* logits, const std::int32_t* targets, BadId* bad,
                         float smoothing, float scale, bool gradient, Index V) {
  constexpr int W = kPack<T>;
  const Index r = blockIdx.x;
  const RowPacks<T> row(logits + r * V, V);
  Index target = targets[r];
  if (target < 0 || target >= V) {
    if (threadIdx.x == 0)
      atomicMin(bad, static_cast<BadId>(r) << 32 | static_cast<std::uint32_t>(target));
    target = 0;
  }
  const Sums sums = sum_row(row);
  const double s = static_cast<double>(smoothing), size = static_cast<double>(V);
  if (threadIdx.x == 0) {
    const double m = static_cast<double>(sums.max), log_sum = log(static_cast<double>(sums.exps));
    const double own = static_cast<double>(to_float(logits[r * V + target]));
    const double nll = m - own + log_sum;
    const double uniform =
        smoothing != 0 ? m - static_cast<double>(sums.logits) / size + log_sum : 0.0;
    losses[r] = static_cast<float>((1 - s) * nll + s * uniform);
  }
  if (!gradient) return;
  __syncthreads();  // the target's logit has been read
  const float factor = scale / sums.exps;
  const float shift = scale * smoothing / static_cast<float>(V);
  const float on_target = scale * (1 - smoothing);
  for_packs(row, 0.0f, [&](Index q, const float(&x)[W]) {
    float d[W];
#pragma unroll
    for (int k = 0; k < W; ++k) {
      d[k] = expf(x[k] - sums.max) * factor - shift;
      if (row.column(q) + k == target) d[k] -= on_target;
    }
    store_part(row, q, d);
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
