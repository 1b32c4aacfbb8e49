// All gradients of layer normalisation in one pass over dy and x: a block works through a chunk of
// rows, a thread owns a pack of columns. So the gradients of gain and bias are sums in registers,
// in order of rows; only the two sums along a row need the block. The chunks are added afterwards.
#include "column_sums.h"

namespace chimera::cuda {
namespace {

constexpr int kMostThreads = 512;
constexpr int kAtOnce = 2;          // rows whose numbers are on their way together
constexpr Index kMostChunks = 768;  // about six blocks for each of a large device's processors
constexpr Index kLeastChunkRows = 8;

// Loads zeros.
__device__ Extent nothing() { return {0, true}; }

struct RowSums {
  float g, projection;  // of g = dy * gain and of g * xhat
};

template <class T>
struct Norm {
  T* dx;
  float* partial;  // (chunks, 2, C): dgain, dbias
  const float *mean, *rstd;
  const T *dy, *x, *gain;
  bool add;
  Index R, C, chunk_rows;
  bool wide;
};

template <class T>
__global__ void __launch_bounds__(kMostThreads) layernorm_backward_kernel(Norm<T> n) {
  constexpr int W = kPack<T>;
  __shared__ RowSums sums[2][kMostThreads / kWarp][kAtOnce];  // used in turn
  const int warps = static_cast<int>(blockDim.x) / kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const Index c = static_cast<Index>(threadIdx.x) * W;
  const Extent mine = extent_of(n.C - c, n.wide);
  const float inverse = 1.0f / static_cast<float>(n.C);
  float gain[W], dgain[W] = {}, dbias[W] = {};
  load(gain, n.gain + c, mine);
  const Index first = static_cast<Index>(blockIdx.x) * n.chunk_rows;
  const Index last = first + n.chunk_rows < n.R ? first + n.chunk_rows : n.R;
  int turn = 0;
  for (Index r = first; r < last; r += kAtOnce, turn ^= 1) {
    float mean[kAtOnce], rstd[kAtOnce];
    Raw<T, W> raw_dy[kAtOnce], raw_x[kAtOnce], raw_dx[kAtOnce];
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      const Extent extent = r + k < last ? mine : nothing();
      const Index at = (r + k) * n.C + c;
      load_raw(raw_dy[k], n.dy + at, extent);
      load_raw(raw_x[k], n.x + at, extent);
      load_raw(raw_dx[k], n.dx + at, n.add ? extent : nothing());
      mean[k] = r + k < last ? n.mean[r + k] : 0.0f;
      rstd[k] = r + k < last ? n.rstd[r + k] : 0.0f;
    }
    float g[kAtOnce][W], xhat[kAtOnce][W];
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      RowSums own{0, 0};
      unpack(g[k], raw_dy[k]);
      unpack(xhat[k], raw_x[k]);
#pragma unroll
      for (int i = 0; i < W; ++i) {  // dy is 0 beyond the end of a row and of the chunk
        xhat[k][i] = (xhat[k][i] - mean[k]) * rstd[k];
        dgain[i] += g[k][i] * xhat[k][i];
        dbias[i] += g[k][i];
        g[k][i] *= gain[i];
        own.g += g[k][i];
        own.projection += g[k][i] * xhat[k][i];
      }
      own = {warp_sum(own.g), warp_sum(own.projection)};
      if (threadIdx.x % kWarp == 0) sums[turn][warp][k] = own;
    }
    __syncthreads();  // the next turn writes elsewhere, so one barrier is enough
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      RowSums total{0, 0};
      for (int w = 0; w < warps; ++w) {
        total.g += sums[turn][w][k].g;
        total.projection += sums[turn][w][k].projection;
      }
      const float average = total.g * inverse, projection = total.projection * inverse;
      float d[W];
      unpack(d, raw_dx[k]);
#pragma unroll
      for (int i = 0; i < W; ++i) d[i] += (g[k][i] - average - xhat[k][i] * projection) * rstd[k];
      if (r + k < last) store(n.dx + (r + k) * n.C + c, d, mine);
    }
  }
  float* partial = n.partial + static_cast<Index>(blockIdx.x) * 2 * n.C + c;
  store(partial, dgain, mine);
  store(partial + n.C, dbias, mine);
}

}  // namespace

template <class T>
void layernorm_backward(T* dx, float* dgain, float* dbias, const float* mean, const float* rstd,
                        const T* dy, const T* x, const T* gain, bool add, Index R, Index C,
                        Scratch& scratch, cudaStream_t stream) {
  if (R == 0 || C == 0) return;
  const Index rows = std::max(kLeastChunkRows, ceil_div(R, kMostChunks));
  const Index chunks = ceil_div(R, rows);
  float* partial = scratch.get<float>(chunks * 2 * C);
  const bool wide = C % kPack<T> == 0 && aligned(dx, dy, x, gain);
  const auto threads = static_cast<unsigned>(round_up<Index>(ceil_div<Index>(C, kPack<T>), kWarp));
  launch(layernorm_backward_kernel<T>, static_cast<unsigned>(chunks), threads, 0, stream,
         Norm<T>{dx, partial, mean, rstd, dy, x, gain, add, R, C, rows, wide});
  add_chunks<2>(dgain, dbias, partial, chunks, C, stream);
}

#define CHIMERA_LAYERNORM_BACKWARD(T)                                                           \
  template void layernorm_backward<T>(T*, float*, float*, const float*, const float*, const T*, \
                                      const T*, const T*, bool, Index, Index, Scratch&,         \
                                      cudaStream_t);
CHIMERA_LAYERNORM_BACKWARD(float)
CHIMERA_LAYERNORM_BACKWARD(__nv_bfloat16)
CHIMERA_LAYERNORM_BACKWARD(__half)

}  // namespace chimera::cuda
