// The gradient of layer normalisation's input alone: a warp per row. What a lane needs again lies
// in shared memory, each lane its own numbers (no barrier), so that a row is read once; rows too
// long for that are read again. layernorm_backward.cu has all gradients in one pass.
#include "kernels.h"
#include "packed.h"
#include "reduce.h"

namespace chimera::cuda {
namespace {

constexpr int kMaxWarps = 4;               // rows of a block
constexpr Index kSharedBytes = 48 * 1024;  // every device gives a block this much
constexpr int kMaxThreads = kMaxWarps * kWarp;

// How rows are spread over blocks. cached: a row's numbers are kept in shared memory.
struct Rows {
  int warps;
  bool cached;
  std::size_t shared_bytes;
};
Rows plan_rows(Index floats_per_row) {
  const Index bytes = floats_per_row * Index{sizeof(float)};
  for (int warps = kMaxWarps; warps > 0; warps /= 2)
    if (warps * bytes <= kSharedBytes)
      return {warps, true, static_cast<std::size_t>(warps * bytes)};
  return {kMaxWarps, false, 0};
}

struct Row {
  Index index;  // of the row
  int lane;
  float* cache;  // of this row
};
// `per_row`: floats that a row caches.
__device__ Row this_row(float* shared, Index per_row) {
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  return {static_cast<Index>(blockIdx.x) * (blockDim.x / kWarp) + warp,
          static_cast<int>(threadIdx.x) % kWarp, shared + warp * per_row};
}

// The cache holds g = dy * gain, then xhat.
template <class T>
__global__ void __launch_bounds__(kMaxThreads)
    layernorm_backward_input_kernel(T* dx, const float* mean, const float* rstd, const T* dy,
                                    const T* x, const T* gain, bool add, Index R, Index C,
                                    bool cached, bool wide) {
  constexpr int W = kPack<T>;
  CHIMERA_DYNAMIC_SHARED(float, shared);
  const Row row = this_row(shared, 2 * C);
  if (row.index >= R) return;
  const float m = mean[row.index], s = rstd[row.index];
  const auto compute = [&](float(&g)[W], float(&xhat)[W], Index c, Extent extent) {
    Raw<T, W> raw_dy, raw_x;
    load_raw(raw_dy, dy + row.index * C + c, extent);
    load_raw(raw_x, x + row.index * C + c, extent);
    float w[W];
    load(w, gain + c, extent);
    unpack(g, raw_dy);
    unpack(xhat, raw_x);
#pragma unroll
    for (int k = 0; k < W; ++k) {
      g[k] *= w[k];
      xhat[k] = (xhat[k] - m) * s;
    }
  };
  float g_sum = 0, projection_sum = 0;
  for (Index c = row.lane * W; c < C; c += kWarp * W) {
    const Extent extent = extent_of(C - c, wide);
    float g[W], xhat[W];
    compute(g, xhat, c, extent);
    if (cached) {
      store(row.cache + c, g, extent);
      store(row.cache + C + c, xhat, extent);
    }
#pragma unroll
    for (int k = 0; k < W; ++k) {  // g is 0 beyond the end of the row
      g_sum += g[k];
      projection_sum += g[k] * xhat[k];
    }
  }
  const float inverse = 1.0f / static_cast<float>(C);
  const float average = warp_sum(g_sum) * inverse, projection = warp_sum(projection_sum) * inverse;
  for (Index c = row.lane * W; c < C; c += kWarp * W) {
    const Extent extent = extent_of(C - c, wide);
    float g[W], xhat[W], d[W] = {};
    if (cached) {
      load(g, row.cache + c, extent);
      load(xhat, row.cache + C + c, extent);
    } else {
      compute(g, xhat, c, extent);
    }
    T* to = dx + row.index * C + c;
    if (add) load(d, to, extent);
#pragma unroll
    for (int k = 0; k < W; ++k) d[k] += (g[k] - average - xhat[k] * projection) * s;
    store(to, d, extent);
  }
}

template <class T>
bool wide_rows(Index C) {
  return C % kPack<T> == 0;
}

}  // namespace

template <class T>
void layernorm_backward_input(T* dx, const float* mean, const float* rstd, const T* dy, const T* x,
                              const T* gain, bool add, Index R, Index C, cudaStream_t stream) {
  if (R == 0) return;
  const Rows rows = plan_rows(2 * C);
  launch(layernorm_backward_input_kernel<T>, blocks_for(R, rows.warps),
         static_cast<unsigned>(rows.warps * kWarp), rows.shared_bytes, stream, dx, mean, rstd, dy,
         x, gain, add, R, C, rows.cached, wide_rows<T>(C) && aligned(dx, dy, x, gain));
}

#define CHIMERA_LAYERNORM_INPUT(T)                                                              \
  template void layernorm_backward_input<T>(T*, const float*, const float*, const T*, const T*, \
                                            const T*, bool, Index, Index, cudaStream_t);
CHIMERA_LAYERNORM_INPUT(float)
CHIMERA_LAYERNORM_INPUT(__nv_bfloat16)
CHIMERA_LAYERNORM_INPUT(__half)

}  // namespace chimera::cuda
