#pragma once
// Attention over 16-bit numbers on tensor cores, what both directions share: a left tile of 64 rows
// and a right one in shared memory, a warp for each 16 rows of the left tile, products of 16 x 16 x
// 16 with fp32 sums. Scores pass through shared memory, since CUDA does not say which lane holds
// what of a fragment.
#include "attention_tile.h"

namespace chimera::cuda {

constexpr int kTensorTile = 64;
constexpr int kSide = 16;  // of a fragment
constexpr int kTensorWarps = kTensorTile / kSide;
constexpr int kTensorThreads = kTensorWarps * kWarp;
constexpr float kLog2e = 1.44269504f, kLn2 = 0.693147181f;

constexpr int kRowLanes = 8;  // lanes that share a row of scores
constexpr int kRowGroups = kWarp / kRowLanes;

// Sizes for heads of up to kMaxHeadSize numbers, a multiple of 16, and right tiles of kRightRows.
template <int kMaxHeadSize, int kRightRows = kTensorTile>
struct TensorSizes {
  static constexpr int kRight = kRightRows;
  static constexpr int kHead = kMaxHeadSize;
  static constexpr int kStride = kHead + 8;  // numbers from row to row of a tile
  static constexpr int kNumbers = kTensorTile * kStride, kRightNumbers = kRight * kStride;
  static constexpr int kBlocks = kHead / kSide;
  static constexpr int kScoreRow = kRight + 8;      // floats from row to row of the scores
  static constexpr int kWeightRow = 2 * kScoreRow;  // 16-bit numbers: weights lie in those rows
  static constexpr int kScoreFloats = kTensorTile * kScoreRow;
  static constexpr int kRun = kRight / kRowLanes;  // columns of a lane
};

namespace wmma = nvcuda::wmma;
using Sums = wmma::fragment<wmma::accumulator, kSide, kSide, kSide, float>;
template <class T>
using Left = wmma::fragment<wmma::matrix_a, kSide, kSide, kSide, T, wmma::row_major>;
// The right factor by the rows of its tile, or those rows as its columns.
template <class T>
using RightRows = wmma::fragment<wmma::matrix_b, kSide, kSide, kSide, T, wmma::row_major>;
template <class T>
using RightColumns = wmma::fragment<wmma::matrix_b, kSide, kSide, kSide, T, wmma::col_major>;

// Rows of (rows, head) numbers, `stride` apart, into a tile; what is missing becomes 0.
template <class S, int kTileRows, class T>
__device__ void load_numbers(T* tile, const T* from, Index stride, Index rows, Index head,
                             bool wide) {
  constexpr int W = kPack<T>, kPacks = S::kHead / W;
  for (int i = static_cast<int>(threadIdx.x); i < kTileRows * kPacks; i += kTensorThreads) {
    const int row = i / kPacks, c = i % kPacks * W;
    T x[W];
#pragma unroll
    for (int k = 0; k < W; ++k) x[k] = from_float<T>(0.0f);
    if (row < rows && c < head) {
      const T* at = from + row * stride + c;
      if (wide) {
        const uint4 raw = *reinterpret_cast<const uint4*>(at);
        memcpy(static_cast<void*>(x), &raw, sizeof raw);
      } else {
#pragma unroll
        for (int k = 0; k < W; ++k)
          if (c + k < head) x[k] = at[k];
      }
    }
    uint4 raw;
    memcpy(&raw, static_cast<const void*>(x), sizeof raw);
    *reinterpret_cast<uint4*>(tile + row * S::kStride + c) = raw;
  }
}

// scores (16, kRight) = the warp's 16 rows `left` times the rows of `right`, over `blocks` blocks
// of 16.
template <class S, class T>
__device__ void score_products(float* scores, const T* left, const T* right, int blocks) {
  constexpr int kColumns = S::kRight / kSide;
  Sums sum[kColumns];
  for (auto& s : sum) wmma::fill_fragment(s, 0.0f);
  for (int d = 0; d < blocks; ++d) {
    Left<T> a;
    wmma::load_matrix_sync(a, left + d * kSide, S::kStride);
#pragma unroll
    for (int n = 0; n < kColumns; ++n) {
      RightColumns<T> b;
      wmma::load_matrix_sync(b, right + n * kSide * S::kStride + d * kSide, S::kStride);
      wmma::mma_sync(sum[n], a, b, sum[n]);
    }
  }
#pragma unroll
  for (int n = 0; n < kColumns; ++n)
    wmma::store_matrix_sync(scores + n * kSide, sum[n], S::kScoreRow, wmma::mem_row_major);
  __syncwarp();
}

// out (16, head) += weights (16, kRight) times the rows of `right` (kRight, head).
template <class S, class T>
__device__ void add_weighted(Sums (&out)[S::kBlocks], const T* weights, const T* right,
                             int blocks) {
#pragma unroll
  for (int k = 0; k < S::kRight / kSide; ++k) {
    Left<T> a;
    wmma::load_matrix_sync(a, weights + k * kSide, S::kWeightRow);
#pragma unroll
    for (int c = 0; c < S::kBlocks; ++c)
      if (c < blocks) {
        RightRows<T> b;
        wmma::load_matrix_sync(b, right + k * kSide * S::kStride + c * kSide, S::kStride);
        wmma::mma_sync(out[c], a, b, out[c]);
      }
  }
}

// Where a warp works on rows of scores, lane l has rows l / 8, l / 8 + 4, ... and of each the run
// of columns from l % 8 * kRun on.
__device__ inline int lane_row(int group) {
  return static_cast<int>(threadIdx.x) % kWarp / kRowLanes + group * kRowGroups;
}
template <class S>
__device__ int lane_column() {
  return static_cast<int>(threadIdx.x) % kRowLanes * S::kRun;
}
__device__ inline int warp_row() { return static_cast<int>(threadIdx.x) / kWarp * kSide; }

// A run of a row's scores.
template <class S>
__device__ void read_run(float (&x)[S::kRun], const float* scores, int row) {
  load(x, scores + row * S::kScoreRow + lane_column<S>(), {S::kRun, true});
}
// A run of weights over the scores of the same row, which all its lanes have read.
template <class T, class S>
__device__ void write_run(float* scores, const float (&x)[S::kRun], int row) {
  store(reinterpret_cast<T*>(scores) + row * S::kWeightRow + lane_column<S>(), x, {S::kRun, true});
}

// The warp's rows of out, row lane_row(g) times scale[g], to memory. `scores`: the warp's, lost.
template <class S, class T>
__device__ void store_out(T* to, Index stride, Index rows, Index head, Sums (&out)[S::kBlocks],
                          float* scores, const float (&scale)[kRowGroups], bool wide) {
  constexpr int kAtOnce = S::kRight / kSide;
#pragma unroll
  for (int first = 0; first < S::kBlocks; first += kAtOnce) {
    __syncwarp();
#pragma unroll
    for (int c = first; c < S::kBlocks && c < first + kAtOnce; ++c)
      wmma::store_matrix_sync(scores + (c - first) * kSide, out[c], S::kScoreRow,
                              wmma::mem_row_major);
    __syncwarp();
#pragma unroll
    for (int g = 0; g < kRowGroups; ++g) {
      const int row = lane_row(g);
      const Index column = first * kSide + lane_column<S>();
      if (warp_row() + row >= rows || column >= head) continue;
      float x[S::kRun];
      read_run<S>(x, scores, row);
#pragma unroll
      for (int k = 0; k < S::kRun; ++k) x[k] *= scale[g];
      store(to + (warp_row() + row) * stride + column, x, extent_of(head - column, wide));
    }
  }
}

}  // namespace chimera::cuda
