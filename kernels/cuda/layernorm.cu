// Layer normalisation, forward, alone or of a sum with a residual: a warp per row, which stays in
// registers, so that it is read once; rows too long for that are read again. The variance is summed
// around the mean, as on the CPU.
#include "kernels.h"
#include "packed.h"
#include "philox.h"
#include "reduce.h"

namespace chimera::cuda {
namespace {

constexpr int kRowWarps = 4;  // rows of a block
constexpr int kRowThreads = kRowWarps * kWarp;

// Where a row comes from: read() gives a pack of row r from column c on, again() the same later.
template <class T>
struct Plain {
  const T* x;
  Index C;
  __device__ void read(float (&v)[kPack<T>], Index r, Index c, Extent extent) const {
    load(v, x + r * C + c, extent);
  }
  __device__ void again(float (&v)[kPack<T>], Index r, Index c, Extent extent) const {
    read(v, r, c, extent);
  }
};

// residual + mask * branch, which read() stores; what is normalised is what was stored.
template <class T, bool kDropout>
struct Sum {
  T* out;
  const T *residual, *branch;
  Mask mask;
  Index tokens, C;
  __device__ void read(float (&v)[kPack<T>], Index r, Index c, Extent extent) const {
    constexpr int W = kPack<T>;
    const Index at = r * C + c;
    float b[W];
    load(b, branch + at, extent);
    load(v, residual + at, extent);
    if constexpr (kDropout) {
      float keep[W];
      keep_scales(keep, static_cast<std::uint64_t>(r % tokens * C + c),
                  static_cast<std::uint64_t>(mask.first_sample + r / tokens), mask);
#pragma unroll
      for (int k = 0; k < W; ++k) b[k] *= keep[k];
    }
    T sum[W];
#pragma unroll
    for (int k = 0; k < W; ++k) {
      sum[k] = from_float<T>(v[k] + b[k]);
      v[k] = to_float(sum[k]);
    }
    store_as(out + at, sum, extent);
  }
  __device__ void again(float (&v)[kPack<T>], Index r, Index c, Extent extent) const {
    load(v, out + r * C + c, extent);
  }
};

// kPacks: packs of a lane that are kept; 0: none, rows of any length.
template <class T, int kPacks, class Source>
__global__ void __launch_bounds__(kRowThreads)
    layernorm_forward_kernel(T* y, float* mean, float* rstd, Source source, const T* gain,
                             const T* bias, float epsilon, Index R, Index C, bool wide) {
  constexpr int W = kPack<T>;
  constexpr bool kKept = kPacks > 0;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const Index r =
      static_cast<Index>(blockIdx.x) * kRowWarps + static_cast<int>(threadIdx.x) / kWarp;
  if (r >= R) return;
  float kept[kKept ? kPacks : 1][W];
  // body(v, c, extent) on every pack of the lane.
  const auto for_packs = [&](bool first, const auto& body) {
    if constexpr (kKept) {
#pragma unroll
      for (int p = 0; p < kPacks; ++p) {
        const Index c = (p * kWarp + lane) * W;
        if (first) source.read(kept[p], r, c, extent_of(C - c, wide));
      }
#pragma unroll
      for (int p = 0; p < kPacks; ++p) {
        const Index c = (p * kWarp + lane) * W;
        if (c < C) body(kept[p], c, extent_of(C - c, wide));
      }
    } else {
      for (Index c = lane * W; c < C; c += kWarp * W) {
        const Extent extent = extent_of(C - c, wide);
        if (first)
          source.read(kept[0], r, c, extent);
        else
          source.again(kept[0], r, c, extent);
        body(kept[0], c, extent);
      }
    }
  };
  float sum = 0;
  for_packs(true, [&](const float(&v)[W], Index, Extent) {
#pragma unroll
    for (int k = 0; k < W; ++k) sum += v[k];
  });
  const float inverse = 1.0f / static_cast<float>(C);
  const float m = warp_sum(sum) * inverse;
  float squares = 0;
  for_packs(false, [&](const float(&v)[W], Index, Extent extent) {
#pragma unroll
    for (int k = 0; k < W; ++k) {
      const float d = k < extent.count ? v[k] - m : 0.0f;
      squares += d * d;
    }
  });
  const float s = 1.0f / sqrtf(warp_sum(squares) * inverse + epsilon);
  for_packs(false, [&](const float(&v)[W], Index c, Extent extent) {
    float g[W], b[W];
    load(g, gain + c, extent);
    load(b, bias + c, extent);
#pragma unroll
    for (int k = 0; k < W; ++k) b[k] = (v[k] - m) * s * g[k] + b[k];
    store(y + r * C + c, b, extent);
  });
  if (lane == 0) {
    mean[r] = m;
    rstd[r] = s;
  }
}

// Lanes keep 16, 32 or 64 numbers of a row; beyond 2,048 columns none.
template <class T, class Source>
void normalise(T* y, float* mean, float* rstd, const Source& source, const T* gain, const T* bias,
               float epsilon, Index R, Index C, bool rows_aligned, cudaStream_t stream) {
  if (R == 0) return;
  constexpr int W = kPack<T>;
  const bool wide = C % W == 0 && rows_aligned && aligned(y, gain, bias);
  const auto kernel = C <= 16 * kWarp   ? layernorm_forward_kernel<T, 16 / W, Source>
                      : C <= 32 * kWarp ? layernorm_forward_kernel<T, 32 / W, Source>
                      : C <= 64 * kWarp ? layernorm_forward_kernel<T, 64 / W, Source>
                                        : layernorm_forward_kernel<T, 0, Source>;
  launch(kernel, blocks_for(R, kRowWarps), kRowThreads, 0, stream, y, mean, rstd, source, gain,
         bias, epsilon, R, C, wide);
}

}  // namespace

template <class T>
void layernorm_forward(T* y, float* mean, float* rstd, const T* x, const T* gain, const T* bias,
                       float epsilon, Index R, Index C, cudaStream_t stream) {
  normalise(y, mean, rstd, Plain<T>{x, C}, gain, bias, epsilon, R, C, aligned(x), stream);
}

template <class T>
void residual_layernorm_forward(T* y, float* mean, float* rstd, T* out, const T* residual,
                                const T* branch, const T* gain, const T* bias, float epsilon,
                                const Mask& mask, Index tokens, Index R, Index C,
                                cudaStream_t stream) {
  const bool wide = aligned(out, residual, branch);
  if (mask.threshold != 0)
    normalise(y, mean, rstd, Sum<T, true>{out, residual, branch, mask, tokens, C}, gain, bias,
              epsilon, R, C, wide, stream);
  else
    normalise(y, mean, rstd, Sum<T, false>{out, residual, branch, mask, tokens, C}, gain, bias,
              epsilon, R, C, wide, stream);
}

#define CHIMERA_LAYERNORM(T)                                                                  \
  template void layernorm_forward<T>(T*, float*, float*, const T*, const T*, const T*, float, \
                                     Index, Index, cudaStream_t);                             \
  template void residual_layernorm_forward<T>(T*, float*, float*, T*, const T*, const T*,     \
                                              const T*, const T*, float, const Mask&, Index,  \
                                              Index, Index, cudaStream_t);
CHIMERA_LAYERNORM(float)
CHIMERA_LAYERNORM(__nv_bfloat16)
CHIMERA_LAYERNORM(__half)

}  // namespace chimera::cuda
