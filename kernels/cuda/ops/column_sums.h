#pragma once
// Sums down the columns of (R, C), in two stages: blocks sum chunks of rows for a strip of columns,
// then the chunks are added in ascending order. Chunks depend on R alone, so the bits depend on
// neither device nor order of blocks. No atomics.
#include <algorithm>

#include "device/scratch.h"
#include "kernels.h"
#include "packed.h"
#include "reduce.h"

namespace chimera::cuda {

constexpr int kSumWarps = 8;       // of a block; warp w takes rows w, w + 8, ... of its chunk
constexpr Index kMaxChunks = 128;  // enough blocks for any device, few enough to add quickly
constexpr Index kMinChunkRows = 32;
constexpr int kSumThreads = kSumWarps * kWarp;
constexpr int kAddWarps = 16;  // of a block that adds chunks

inline Index chunk_rows(Index R) { return std::max(kMinChunkRows, ceil_div(R, kMaxChunks)); }

namespace {

// partial (chunks, N, C): sums over each chunk of the N terms of every column. terms(out, r, c,
// extent) computes out[n][k] for row r and the pack of columns c on; 0 beyond the extent.
template <int W, int N, class Terms>
__global__ void __launch_bounds__(kSumThreads)
    chunk_sums_kernel(float* partial, Terms terms, Index R, Index C, Index rows, bool wide) {
  __shared__ float sums[kSumWarps][N][kWarp * W];
  const int lane = static_cast<int>(threadIdx.x) % kWarp,
            warp = static_cast<int>(threadIdx.x) / kWarp;
  const Index strip = static_cast<Index>(blockIdx.x) * kWarp * W, c = strip + lane * W;
  const Index first = static_cast<Index>(blockIdx.y) * rows;
  const Index last = first + rows < R ? first + rows : R;
  float sum[N][W] = {};
  if (c < C) {
    const Extent extent = extent_of(C - c, wide);
    for (Index r = first + warp; r < last; r += kSumWarps) {
      float term[N][W];
      terms(term, r, c, extent);
#pragma unroll
      for (int n = 0; n < N; ++n)
#pragma unroll
        for (int k = 0; k < W; ++k) sum[n][k] += term[n][k];
    }
  }
#pragma unroll
  for (int n = 0; n < N; ++n)
#pragma unroll
    for (int k = 0; k < W; ++k) sums[warp][n][k * kWarp + lane] = sum[n][k];
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < N * kWarp * W; i += kSumThreads) {
    const int n = i / (kWarp * W), at = i % (kWarp * W);  // column at of the strip: lane at / W
    float total = 0;
    for (int w = 0; w < kSumWarps; ++w) total += sums[w][n][at % W * kWarp + at / W];
    if (strip + at < C) partial[(blockIdx.y * N + n) * C + strip + at] = total;
  }
}

// out_n (C) += the chunks of partial (chunks, N, C), a block per 32 columns: warp w adds the chunks
// w, w + kAddWarps, ..., then the warps are added.
template <int N>
__global__ void __launch_bounds__(kAddWarps* kWarp)
    add_chunks_kernel(float* out0, float* out1, const float* partial, Index chunks, Index C) {
  __shared__ float sums[kAddWarps][kWarp];
  const int lane = static_cast<int>(threadIdx.x) % kWarp,
            warp = static_cast<int>(threadIdx.x) / kWarp;
  const Index c = static_cast<Index>(blockIdx.x) * kWarp + lane;
  const Index n = blockIdx.y;
  float sum = 0;
  if (c < C) {
#pragma unroll 8
    for (Index chunk = warp; chunk < chunks; chunk += kAddWarps)
      sum += partial[(chunk * N + n) * C + c];
  }
  sums[warp][lane] = sum;
  __syncthreads();
  if (warp > 0 || c >= C) return;
  float total = 0;
  for (int w = 0; w < kAddWarps; ++w) total += sums[w][lane];
  (n == 0 ? out0 : out1)[c] += total;
}

template <int N>
void add_chunks(float* out0, float* out1, const float* partial, Index chunks, Index C,
                cudaStream_t stream) {
  launch(add_chunks_kernel<N>, dim3(blocks_for(C, kWarp), N), kAddWarps * kWarp, 0, stream, out0,
         out1, partial, chunks, C);
}

// out0 (and out1 where N is 2) += column sums of the terms.
template <int W, int N, class Terms>
void add_column_sums(float* out0, float* out1, const Terms& terms, Index R, Index C, bool wide,
                     Scratch& scratch, cudaStream_t stream) {
  const Index rows = chunk_rows(R), chunks = ceil_div(R, rows);
  float* partial = scratch.get<float>(chunks * N * C);
  launch(chunk_sums_kernel<W, N, Terms>,
         dim3(blocks_for(C, kWarp * W), static_cast<unsigned>(chunks)), kSumThreads, 0, stream,
         partial, terms, R, C, rows, wide);
  add_chunks<N>(out0, out1, partial, chunks, C, stream);
}

}  // namespace
}  // namespace chimera::cuda
