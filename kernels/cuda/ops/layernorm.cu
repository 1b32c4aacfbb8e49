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

// Where a row comes from. A pack of it is on its way with load(), and there with arrived(); again()
// brings it later.
template <class T>
struct Plain {
  using Pack = Raw<T, kPack<T>>;
  using Loaded = Pack;
  const T* x;
  Index C;
  __device__ void load(Loaded& loaded, Index r, Index c, Extent extent) const {
    load_raw(loaded, x + r * C + c, extent);
  }
  __device__ Pack arrived(const Loaded& loaded, Index, Index, Extent) const { return loaded; }
  __device__ Pack again(Index r, Index c, Extent extent) const {
    Pack pack;
    load(pack, r, c, extent);
    return pack;
  }
};

// residual + mask * branch, which arrived() stores: what is normalised is what was stored.
template <class T, bool kDropout>
struct Sum {
  using Pack = Raw<T, kPack<T>>;
  struct Loaded {
    Pack residual, branch;
  };
  T* out;
  const T *residual, *branch;
  Mask mask;
  Index tokens, C;
  __device__ void load(Loaded& loaded, Index r, Index c, Extent extent) const {
    load_raw(loaded.residual, residual + r * C + c, extent);
    load_raw(loaded.branch, branch + r * C + c, extent);
  }
  __device__ Pack arrived(const Loaded& loaded, Index r, Index c, Extent extent) const {
    constexpr int W = kPack<T>;
    float x[W], b[W];
    unpack(x, loaded.residual);
    unpack(b, loaded.branch);
    if constexpr (kDropout) {
      float keep[W];
      keep_scales(keep, static_cast<std::uint64_t>(r % tokens * C + c),
                  static_cast<std::uint64_t>(mask.first_sample + r / tokens), mask);
#pragma unroll
      for (int k = 0; k < W; ++k) b[k] *= keep[k];
    }
#pragma unroll
    for (int k = 0; k < W; ++k) x[k] += b[k];
    Pack sum;
    pack(sum, x);
    store_raw(out + r * C + c, sum, extent);
    return sum;
  }
  __device__ Pack again(Index r, Index c, Extent extent) const {
    Pack sum;
    load_raw(sum, out + r * C + c, extent);
    return sum;
  }
};

// kPacks: packs of a lane that are kept; 0: none, rows of any length.
template <class T, int kPacks, class Source>
__global__ void __launch_bounds__(kRowThreads)
    layernorm_forward_kernel(T* y, float* mean, float* rstd, Source source, const T* gain,
                             const T* bias, float epsilon, Index R, Index C, bool wide) {
  constexpr int W = kPack<T>, kKept = kPacks > 0 ? kPacks : 1;
  const Index r =
      static_cast<Index>(blockIdx.x) * kRowWarps + static_cast<int>(threadIdx.x) / kWarp;
  if (r >= R) return;
  const Index own = static_cast<int>(threadIdx.x) % kWarp * W;  // the lane's first column
  Raw<T, W> kept[kKept];
  const auto for_packs = [&](bool first, const auto& body) {
    float v[W];
    if constexpr (kPacks > 0) {
#pragma unroll
      for (int p = 0; p < kPacks; ++p) {
        const Index c = own + p * kWarp * W;
        if (c >= C) continue;
        unpack(v, kept[p]);
        body(v, c, extent_of(C - c, wide));
      }
    } else {
      for (Index c = own; c < C; c += kWarp * W) {
        const Extent extent = extent_of(C - c, wide);
        if (first) {
          typename Source::Loaded loaded;
          source.load(loaded, r, c, extent);
          kept[0] = source.arrived(loaded, r, c, extent);
        } else {
          kept[0] = source.again(r, c, extent);
        }
        unpack(v, kept[0]);
        body(v, c, extent);
      }
    }
  };
  if constexpr (kPacks > 0) {
    typename Source::Loaded loaded[kKept];
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      const Index c = own + p * kWarp * W;
      source.load(loaded[p], r, c, extent_of(C - c, wide));
    }
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      const Index c = own + p * kWarp * W;
      kept[p] = source.arrived(loaded[p], r, c, extent_of(C - c, wide));
    }
  }
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
  if (own == 0) {
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
