// Causal attention, backward: the probabilities are recomputed from the saved log-sum-exp, tile by
// tile (Dao et al., FlashAttention, 2022). With P the probabilities, M the dropout multipliers and
// delta = rowsum(dout * out): dV = (P M)' dout, dS = P * (M * (dout V') - delta), dQ = dS K, dK =
// dS' Q, the last two scaled. One kernel owns tiles of keys and sums over queries, one owns tiles
// of queries and sums over keys: both recompute P and dS, and neither needs atomics.
#include "attention_tile.h"

namespace chimera::cuda {
namespace {

// delta of one query and head: a warp per row of (B, T, H).
template <class T>
__global__ void __launch_bounds__(kThreads)
    attention_delta_kernel(float* delta, const T* dout, const T* out, AttentionShape s) {
  const Index unit = thread_index() / kWarp;
  if (unit >= s.B * s.T * s.H) return;
  const Index h = unit % s.H, t = unit / s.H % s.T, b = unit / s.H / s.T;
  float sum = 0;
  for (Index d = threadIdx.x % kWarp; d < s.head; d += kWarp)
    sum += to_float(dout[unit * s.head + d]) * to_float(out[unit * s.head + d]);
  sum = warp_sum(sum);
  if (threadIdx.x % kWarp == 0) delta[(b * s.H + h) * s.T + t] = sum;
}

// From the score p and dp = dout . v of one query and key: p = probability times multiplier, dp =
// dS.
__device__ inline void probability(float& p, float& dp, float lse, float delta, float keep,
                                   bool seen) {
  const float probability = seen ? expf(p - lse) : 0.0f;
  dp = probability * (dp * keep - delta);
  p = probability * keep;
}

// dK and dV of a tile of keys: left tiles are keys and values, right ones queries and dout.
template <class T, class S, bool kDropout>
__global__ void __launch_bounds__(S::kThreads)
    attention_dkv_kernel(T* dk, T* dv, BackwardInputs<T> in, AttentionShape s, Mask mask,
                         float scale, bool wide) {
  CHIMERA_DYNAMIC_SHARED(float, shared);
  float *keys = shared, *values = keys + S::kFloats, *queries = values + S::kFloats;
  float *douts = queries + S::kFloats, *scores = douts + S::kFloats;
  const int ty = static_cast<int>(threadIdx.x) / kLanes,
            tx = static_cast<int>(threadIdx.x) % kLanes;
  const Index j = static_cast<Index>(blockIdx.x) * S::kTile;
  const HeadOffsets at = head_offsets(s, mask, blockIdx.y, blockIdx.z);
  const Index here = s.T - j < S::kTile ? s.T - j : S::kTile;
  const int depth = static_cast<int>((s.head + 3) / 4 * 4);
  load_tile<S, Side::Left>(keys, in.k + at.kv + j * s.kv_row, s.kv_row, here, s.head, 1.0f, wide);
  load_tile<S, Side::Left>(values, in.v + at.kv + j * s.kv_row, s.kv_row, here, s.head, 1.0f, wide);
  float dk_sum[kRows][S::kOut] = {}, dv_sum[kRows][S::kOut] = {};
  for (Index i = j; i < s.T; i += S::kTile) {
    const Index rows = s.T - i < S::kTile ? s.T - i : S::kTile;
    __syncthreads();  // the queries of the tile before have been used
    load_tile<S, Side::Right>(queries, in.q + at.q + i * s.q_row, s.q_row, rows, s.head, scale,
                              wide);
    load_tile<S, Side::Right>(douts, in.dout + at.out + i * s.out_row, s.out_row, rows, s.head,
                              1.0f, wide);
    __syncthreads();
    float p[kRows][S::kColumns], ds[kRows][S::kColumns];
    row_products<S>(p, keys, queries, depth);
    row_products<S>(ds, values, douts, depth);
#pragma unroll
    for (int c = 0; c < S::kColumns; ++c) {
      const Index query = i + tx * S::kColumns + c, first_key = j + ty * kRows;
      const bool exists = query < s.T;
      const float lse = exists ? in.lse[at.row + query] : 0.0f;
      const float delta = exists ? in.delta[at.row + query] : 0.0f;
      float keep[kRows];
      if constexpr (kDropout)
        keep_run(keep, at.first_element + static_cast<std::uint64_t>(query * s.T + first_key),
                 at.sample, mask);
#pragma unroll
      for (int r = 0; r < kRows; ++r)
        probability(p[r][c], ds[r][c], lse, delta, kDropout ? keep[r] : 1.0f,
                    exists && first_key + r <= query);
    }
    put_scores<S>(scores, p);
    add_weighted_rows<S>(dv_sum, scores, douts);
    put_scores<S>(scores, ds);
    add_weighted_rows<S>(dk_sum, scores, queries);
  }
  constexpr float kOnes[kRows] = {1, 1, 1, 1};  // queries were scaled
  store_rows<S>(dk + at.kv + j * s.kv_row, s.kv_row, here, s.head, dk_sum, kOnes);
  store_rows<S>(dv + at.kv + j * s.kv_row, s.kv_row, here, s.head, dv_sum, kOnes);
}

// dQ of a tile of queries: left tiles are queries and dout, right ones keys and values.
template <class T, class S, bool kDropout>
__global__ void __launch_bounds__(S::kThreads)
    attention_dq_kernel(T* dq, BackwardInputs<T> in, AttentionShape s, Mask mask, float scale,
                        bool wide) {
  CHIMERA_DYNAMIC_SHARED(float, shared);
  float *queries = shared, *douts = queries + S::kFloats, *keys = douts + S::kFloats;
  float *values = keys + S::kFloats, *scores = values + S::kFloats;
  const int ty = static_cast<int>(threadIdx.x) / kLanes,
            tx = static_cast<int>(threadIdx.x) % kLanes;
  const Index i = static_cast<Index>(gridDim.x - 1 - blockIdx.x) * S::kTile;
  const HeadOffsets at = head_offsets(s, mask, blockIdx.y, blockIdx.z);
  const Index rows = s.T - i < S::kTile ? s.T - i : S::kTile;
  const int depth = static_cast<int>((s.head + 3) / 4 * 4);
  load_tile<S, Side::Left>(queries, in.q + at.q + i * s.q_row, s.q_row, rows, s.head, scale, wide);
  load_tile<S, Side::Left>(douts, in.dout + at.out + i * s.out_row, s.out_row, rows, s.head, 1.0f,
                           wide);
  float lse[kRows], delta[kRows], dq_sum[kRows][S::kOut] = {};
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const bool exists = ty * kRows + r < rows;
    lse[r] = exists ? in.lse[at.row + i + ty * kRows + r] : 0.0f;
    delta[r] = exists ? in.delta[at.row + i + ty * kRows + r] : 0.0f;
  }
  for (Index j = 0; j < i + rows; j += S::kTile) {
    const Index here = s.T - j < S::kTile ? s.T - j : S::kTile;
    __syncthreads();  // the keys of the tile before have been used
    load_tile<S, Side::Right>(keys, in.k + at.kv + j * s.kv_row, s.kv_row, here, s.head, 1.0f,
                              wide);
    load_tile<S, Side::Right>(values, in.v + at.kv + j * s.kv_row, s.kv_row, here, s.head, 1.0f,
                              wide);
    __syncthreads();
    float p[kRows][S::kColumns], ds[kRows][S::kColumns];
    row_products<S>(p, queries, keys, depth);
    row_products<S>(ds, douts, values, depth);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const Index query = i + ty * kRows + r, first_key = j + tx * S::kColumns;
      float keep[S::kColumns];
      if constexpr (kDropout)
        keep_run(keep, at.first_element + static_cast<std::uint64_t>(query * s.T + first_key),
                 at.sample, mask);
#pragma unroll
      for (int c = 0; c < S::kColumns; ++c)
        probability(p[r][c], ds[r][c], lse[r], delta[r], kDropout ? keep[c] : 1.0f,
                    query < s.T && first_key + c <= query);
    }
    put_scores<S>(scores, ds);
    add_weighted_rows<S>(dq_sum, scores, keys);
  }
  const float scales[kRows] = {scale, scale, scale, scale};
  store_rows<S>(dq + at.q + i * s.q_row, s.q_row, rows, s.head, dq_sum, scales);
}

template <class T, class S>
void run(T* dq, T* dk, T* dv, const BackwardInputs<T>& in, const AttentionShape& s,
         const Mask& mask, cudaStream_t stream) {
  constexpr std::size_t kShared = (4 * S::kFloats + S::kScoreFloats) * sizeof(float);
  const bool drop = mask.threshold != 0;
  const auto dkv = drop ? attention_dkv_kernel<T, S, true> : attention_dkv_kernel<T, S, false>;
  const auto dq_kernel = drop ? attention_dq_kernel<T, S, true> : attention_dq_kernel<T, S, false>;
  allow_shared(dkv, kShared);
  allow_shared(dq_kernel, kShared);
  const float scale = 1.0f / std::sqrt(static_cast<float>(s.head));
  const bool wide = wide_heads<T>(s, in.dout, in.q, in.k, in.v);
  const dim3 grid(blocks_for(s.T, S::kTile), narrow<unsigned>(s.H), narrow<unsigned>(s.B));
  launch(dkv, grid, S::kThreads, kShared, stream, dk, dv, in, s, mask, scale, wide);
  launch(dq_kernel, grid, S::kThreads, kShared, stream, dq, in, s, mask, scale, wide);
}

}  // namespace

template <class T>
void attention_delta(float* delta, const T* dout, const T* out, const AttentionShape& s,
                     cudaStream_t stream) {
  launch(attention_delta_kernel<T>, blocks_for(s.B * s.T * s.H, kThreads / kWarp), kThreads, 0,
         stream, delta, dout, out, s);
}

template <>
void attention_backward<float>(float* dq, float* dk, float* dv, float* delta, const float* dout,
                               const float* out, const float* lse, const float* q, const float* k,
                               const float* v, const AttentionShape& s, const Mask& mask,
                               cudaStream_t stream) {
  if (s.B == 0 || s.T == 0) return;
  attention_delta(delta, dout, out, s, stream);
  const auto run_head = s.head <= 32    ? run<float, TileSizes<32, 64>>
                        : s.head <= 64  ? run<float, TileSizes<64, 64>>
                        : s.head <= 128 ? run<float, TileSizes<128, 32>>
                                        : run<float, TileSizes<256, 16>>;
  run_head(dq, dk, dv, {dout, q, k, v, lse, delta}, s, mask, stream);
}

template <class T>
void attention_backward_large(T* dq, T* dk, T* dv, const BackwardInputs<T>& in,
                              const AttentionShape& s, const Mask& mask, cudaStream_t stream) {
  run<T, TileSizes<256, 16>>(dq, dk, dv, in, s, mask, stream);
}

#define CHIMERA_ATTENTION_LARGE(T)                                                    \
  template void attention_delta<T>(float*, const T*, const T*, const AttentionShape&, \
                                   cudaStream_t);                                     \
  template void attention_backward_large<T>(T*, T*, T*, const BackwardInputs<T>&,     \
                                            const AttentionShape&, const Mask&, cudaStream_t);
CHIMERA_ATTENTION_LARGE(__nv_bfloat16)
CHIMERA_ATTENTION_LARGE(__half)

}  // namespace chimera::cuda
