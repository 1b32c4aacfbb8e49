// Causal attention over bf16 and fp16, backward: the two kernels of attention_backward.cu on tensor
// cores. Weights (probabilities times multipliers, and dS) are rounded to the storage type.
#include "attention_wmma.h"

namespace chimera::cuda {
namespace {

// What a block's tiles and its warp's scores are in shared memory: left and right tiles of two
// kinds, scores and the products with dout.
template <class T, class S>
struct Tiles {
  T *left, *left_dout, *right, *right_dout;
  float *scores, *dscores;  // the warp's 16 rows
  __device__ explicit Tiles(T* shared)
      : left(shared),
        left_dout(left + S::kNumbers),
        right(left_dout + S::kNumbers),
        right_dout(right + S::kRightNumbers),
        scores(reinterpret_cast<float*>(right_dout + S::kRightNumbers) + warp_row() * S::kScoreRow),
        dscores(scores + S::kScoreFloats) {}
};
template <class T, class S>
constexpr std::size_t kTilesBytes = 2 * (S::kNumbers + S::kRightNumbers) * sizeof(T) +
                                    2 * S::kScoreFloats * sizeof(float);

// From the score x (in units of log2(e), like lse) and dp = dout . v: x = the weight of the value,
// dp = dS.
__device__ inline void weights_of(float& x, float& dp, float lse, float delta, float keep,
                                  bool seen) {
  const float probability = seen ? exp2f(x - lse) : 0.0f;
  dp = probability * (dp * keep - delta);
  x = probability * keep;
}

// dK and dV of a tile of keys: left tiles are keys and values, right ones queries and dout. A lane
// works on the columns (queries) lane, lane + 32, ..., four keys at a time.
template <class T, class S, bool kDropout>
__global__ void __launch_bounds__(kTensorThreads)
    attention_dkv_tensor_kernel(T* dk, T* dv, BackwardInputs<T> in, AttentionShape s, Mask mask,
                                float scale, bool wide) {
  CHIMERA_DYNAMIC_SHARED(T, shared);
  const Tiles<T, S> tiles(shared);
  constexpr int kColumns = S::kRight / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const Index j = static_cast<Index>(blockIdx.x) * kTensorTile;
  const HeadOffsets at = head_offsets(s, mask, blockIdx.y, blockIdx.z);
  const Index here = s.T - j < kTensorTile ? s.T - j : kTensorTile;
  const int blocks = static_cast<int>((s.head + kSide - 1) / kSide);
  load_numbers<S, kTensorTile>(tiles.left, in.k + at.kv + j * s.kv_row, s.kv_row, here, s.head,
                               wide);
  load_numbers<S, kTensorTile>(tiles.left_dout, in.v + at.kv + j * s.kv_row, s.kv_row, here, s.head,
                               wide);
  Sums dk_sum[S::kBlocks], dv_sum[S::kBlocks];
  for (auto& x : dk_sum) wmma::fill_fragment(x, 0.0f);
  for (auto& x : dv_sum) wmma::fill_fragment(x, 0.0f);
  for (Index i = j; i < s.T; i += S::kRight) {
    const Index rows = s.T - i < S::kRight ? s.T - i : S::kRight;
    __syncthreads();  // the queries of the tile before have been used
    load_numbers<S, S::kRight>(tiles.right, in.q + at.q + i * s.q_row, s.q_row, rows, s.head, wide);
    load_numbers<S, S::kRight>(tiles.right_dout, in.dout + at.out + i * s.out_row, s.out_row, rows,
                               s.head, wide);
    __syncthreads();
    score_products<S>(tiles.scores, tiles.left + warp_row() * S::kStride, tiles.right, blocks);
    score_products<S>(tiles.dscores, tiles.left_dout + warp_row() * S::kStride, tiles.right_dout,
                      blocks);
    float lse[kColumns], delta[kColumns];
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      const Index query = i + lane + c * kWarp;
      lse[c] = query < s.T ? in.lse[at.row + query] * kLog2e : 0.0f;
      delta[c] = query < s.T ? in.delta[at.row + query] : 0.0f;
    }
    for (int first = 0; first < kSide; first += kRows) {
      float x[kRows][kColumns], dp[kRows][kColumns];
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        const int column = lane + c * kWarp;
        const Index query = i + column, first_key = j + warp_row() + first;
        float keep[kRows];
        if constexpr (kDropout)
          keep_run(keep, at.first_element + static_cast<std::uint64_t>(query * s.T + first_key),
                   at.sample, mask);
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
          x[r][c] = tiles.scores[(first + r) * S::kScoreRow + column] * scale;
          dp[r][c] = tiles.dscores[(first + r) * S::kScoreRow + column];
          weights_of(x[r][c], dp[r][c], lse[c], delta[c], kDropout ? keep[r] : 1.0f,
                     query < s.T && first_key + r <= query);
        }
      }
      __syncwarp();  // these rows have been read
#pragma unroll
      for (int r = 0; r < kRows; ++r)
#pragma unroll
        for (int c = 0; c < kColumns; ++c) {
          const int to = (first + r) * S::kWeightRow + lane + c * kWarp;
          reinterpret_cast<T*>(tiles.scores)[to] = from_float<T>(x[r][c]);
          reinterpret_cast<T*>(tiles.dscores)[to] = from_float<T>(dp[r][c]);
        }
    }
    __syncwarp();
    add_weighted<S>(dv_sum, reinterpret_cast<const T*>(tiles.scores), tiles.right_dout, blocks);
    add_weighted<S>(dk_sum, reinterpret_cast<const T*>(tiles.dscores), tiles.right, blocks);
    __syncwarp();
  }
  const float ones[kRowGroups] = {1, 1, 1, 1}, root = scale * kLn2;
  const float scales[kRowGroups] = {root, root, root, root};
  store_out<S>(dk + at.kv + j * s.kv_row, s.kv_row, here, s.head, dk_sum, tiles.scores, scales,
               wide);
  store_out<S>(dv + at.kv + j * s.kv_row, s.kv_row, here, s.head, dv_sum, tiles.scores, ones, wide);
}

// dQ of a tile of queries: left tiles are queries and dout, right ones keys and values.
template <class T, class S, bool kDropout>
__global__ void __launch_bounds__(kTensorThreads)
    attention_dq_tensor_kernel(T* dq, BackwardInputs<T> in, AttentionShape s, Mask mask,
                               float scale, bool wide) {
  CHIMERA_DYNAMIC_SHARED(T, shared);
  const Tiles<T, S> tiles(shared);
  const Index i = static_cast<Index>(gridDim.x - 1 - blockIdx.x) * kTensorTile;
  const HeadOffsets at = head_offsets(s, mask, blockIdx.y, blockIdx.z);
  const Index rows = s.T - i < kTensorTile ? s.T - i : kTensorTile;
  const int blocks = static_cast<int>((s.head + kSide - 1) / kSide);
  load_numbers<S, kTensorTile>(tiles.left, in.q + at.q + i * s.q_row, s.q_row, rows, s.head, wide);
  load_numbers<S, kTensorTile>(tiles.left_dout, in.dout + at.out + i * s.out_row, s.out_row, rows,
                               s.head, wide);
  float lse[kRowGroups], delta[kRowGroups];
#pragma unroll
  for (int g = 0; g < kRowGroups; ++g) {
    const Index row = warp_row() + lane_row(g);
    lse[g] = row < rows ? in.lse[at.row + i + row] * kLog2e : 0.0f;
    delta[g] = row < rows ? in.delta[at.row + i + row] : 0.0f;
  }
  Sums sum[S::kBlocks];
  for (auto& x : sum) wmma::fill_fragment(x, 0.0f);
  for (Index j = 0; j < i + rows; j += S::kRight) {
    const Index here = s.T - j < S::kRight ? s.T - j : S::kRight;
    __syncthreads();  // the keys of the tile before have been used
    load_numbers<S, S::kRight>(tiles.right, in.k + at.kv + j * s.kv_row, s.kv_row, here, s.head,
                               wide);
    load_numbers<S, S::kRight>(tiles.right_dout, in.v + at.kv + j * s.kv_row, s.kv_row, here,
                               s.head, wide);
    __syncthreads();
    score_products<S>(tiles.scores, tiles.left + warp_row() * S::kStride, tiles.right, blocks);
    score_products<S>(tiles.dscores, tiles.left_dout + warp_row() * S::kStride, tiles.right_dout,
                      blocks);
#pragma unroll
    for (int g = 0; g < kRowGroups; ++g) {
      const int row = lane_row(g);
      const Index query = i + warp_row() + row, first_key = j + lane_column<S>();
      float x[S::kRun], dp[S::kRun], keep[S::kRun];
      read_run<S>(x, tiles.scores, row);
      read_run<S>(dp, tiles.dscores, row);
      if constexpr (kDropout)
        keep_run(keep, at.first_element + static_cast<std::uint64_t>(query * s.T + first_key),
                 at.sample, mask);
#pragma unroll
      for (int c = 0; c < S::kRun; ++c) {
        x[c] *= scale;
        weights_of(x[c], dp[c], lse[g], delta[g], kDropout ? keep[c] : 1.0f,
                   query < s.T && first_key + c <= query);
      }
      __syncwarp();  // the row has been read
      write_run<T, S>(tiles.dscores, dp, row);
    }
    __syncwarp();
    add_weighted<S>(sum, reinterpret_cast<const T*>(tiles.dscores), tiles.right, blocks);
    __syncwarp();
  }
  const float root = scale * kLn2, scales[kRowGroups] = {root, root, root, root};
  store_out<S>(dq + at.q + i * s.q_row, s.q_row, rows, s.head, sum, tiles.scores, scales, wide);
}

template <class T, class S>
void run(T* dq, T* dk, T* dv, const BackwardInputs<T>& in, const AttentionShape& s,
         const Mask& mask, cudaStream_t stream) {
  constexpr std::size_t kShared = kTilesBytes<T, S>;
  const bool drop = mask.threshold != 0;
  const auto dkv_kernel =
      drop ? attention_dkv_tensor_kernel<T, S, true> : attention_dkv_tensor_kernel<T, S, false>;
  const auto dq_kernel =
      drop ? attention_dq_tensor_kernel<T, S, true> : attention_dq_tensor_kernel<T, S, false>;
  allow_shared(dkv_kernel, kShared);
  allow_shared(dq_kernel, kShared);
  const float scale = kLog2e / std::sqrt(static_cast<float>(s.head));
  const bool wide = wide_heads<T>(s, in.dout, in.q, in.k, in.v, dq, dk, dv);
  const dim3 grid(blocks_for(s.T, kTensorTile), narrow<unsigned>(s.H), narrow<unsigned>(s.B));
  launch(dkv_kernel, grid, kTensorThreads, kShared, stream, dk, dv, in, s, mask, scale, wide);
  launch(dq_kernel, grid, kTensorThreads, kShared, stream, dq, in, s, mask, scale, wide);
}

template <class T>
void run_any(T* dq, T* dk, T* dv, float* delta, const T* dout, const T* out, const float* lse,
             const T* q, const T* k, const T* v, const AttentionShape& s, const Mask& mask,
             cudaStream_t stream) {
  if (s.B == 0 || s.T == 0) return;
  attention_delta(delta, dout, out, s, stream);
  // Tiles of 64 rows of 128 numbers need more than what a block may have on GPUs of capability 8.6
  // and 8.9.
  using Small = TensorSizes<128, 32>;
  using Large = TensorSizes<128>;
  const bool fits = kTilesBytes<T, Large> <= shared_bytes_of_block();
  const auto run_head = s.head <= 32   ? run<T, TensorSizes<32>>
                        : s.head <= 64 ? run<T, TensorSizes<64>>
                        : s.head > 128 ? attention_backward_large<T>
                        : fits         ? run<T, Large>
                                       : run<T, Small>;
  run_head(dq, dk, dv, {dout, q, k, v, lse, delta}, s, mask, stream);
}

}  // namespace

template <>
void attention_backward<__nv_bfloat16>(__nv_bfloat16* dq, __nv_bfloat16* dk, __nv_bfloat16* dv,
                                       float* delta, const __nv_bfloat16* dout,
                                       const __nv_bfloat16* out, const float* lse,
                                       const __nv_bfloat16* q, const __nv_bfloat16* k,
                                       const __nv_bfloat16* v, const AttentionShape& s,
                                       const Mask& mask, cudaStream_t stream) {
  run_any(dq, dk, dv, delta, dout, out, lse, q, k, v, s, mask, stream);
}
template <>
void attention_backward<__half>(__half* dq, __half* dk, __half* dv, float* delta,
                                const __half* dout, const __half* out, const float* lse,
                                const __half* q, const __half* k, const __half* v,
                                const AttentionShape& s, const Mask& mask, cudaStream_t stream) {
  run_any(dq, dk, dv, delta, dout, out, lse, q, k, v, s, mask, stream);
}

}  // namespace chimera::cuda
