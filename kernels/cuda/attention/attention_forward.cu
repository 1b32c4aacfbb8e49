// Causal attention, forward: tiles of keys against a tile of queries with online softmax (Milakov
// and Gimelshein 2018; Dao et al., FlashAttention, 2022), products in fp32. A block per tile of
// queries, head and sample.
#include "attention_tile.h"

namespace chimera::cuda {
namespace {

// The maximum and the sum of a row's exponentials so far, alike in all its lanes.
struct Softmax {
  float max = -INFINITY, sum = 0;
};

// scores -> exp(score - max so far), with the factor that brings earlier terms to the new maximum.
template <int kColumns>
__device__ float online_softmax(float (&x)[kColumns], Softmax& row) {
  float best = row.max;
#pragma unroll
  for (int j = 0; j < kColumns; ++j) best = fmaxf(best, x[j]);
  best = lanes_max(best);
  const float correction = expf(row.max - best);
  float total = 0;
#pragma unroll
  for (int j = 0; j < kColumns; ++j) {
    x[j] = expf(x[j] - best);
    total += x[j];
  }
  row.sum = row.sum * correction + lanes_sum(total);
  row.max = best;
  return correction;
}

template <class T, class S, bool kDropout>
__global__ void __launch_bounds__(S::kThreads)
    attention_forward_kernel(T* out, float* lse, const T* q, const T* k, const T* v,
                             AttentionShape s, Mask mask, float scale, bool wide) {
  CHIMERA_DYNAMIC_SHARED(float, shared);
  float *queries = shared, *keys = queries + S::kFloats, *scores = keys + S::kFloats;
  float* values = keys;  // after the scores are done
  const int ty = static_cast<int>(threadIdx.x) / kLanes,
            tx = static_cast<int>(threadIdx.x) % kLanes;
  // The last tiles have the most keys: they begin first.
  const Index i = static_cast<Index>(gridDim.x - 1 - blockIdx.x) * S::kTile;
  const Index h = blockIdx.y, b = blockIdx.z;
  const HeadOffsets at = head_offsets(s, mask, h, b);
  const Index rows = s.T - i < S::kTile ? s.T - i : S::kTile;
  const Index position = s.first + i, end = position + rows;  // keys 0 ... end - 1 are seen
  const int depth = static_cast<int>((s.head + 3) / 4 * 4);
  load_tile<S, Side::Left>(queries, q + at.q + i * s.q_row, s.q_row, rows, s.head, scale, wide);
  Softmax softmax[kRows];
  float sum[kRows][S::kOut] = {};
  for (Index j = 0; j < end; j += S::kTile) {
    const Index here = end - j < S::kTile ? end - j : S::kTile;
    __syncthreads();  // the values of the tile before have been used
    load_tile<S, Side::Right>(keys, k + at.kv + j * s.kv_row, s.kv_row, here, s.head, 1.0f, wide);
    __syncthreads();
    float x[kRows][S::kColumns];
    row_products<S>(x, queries, keys, depth);
    __syncthreads();  // keys have been used
    load_tile<S, Side::Right>(values, v + at.kv + j * s.kv_row, s.kv_row, here, s.head, 1.0f, wide);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const Index row = ty * kRows + r, first_key = j + tx * S::kColumns;
#pragma unroll
      for (int c = 0; c < S::kColumns; ++c)
        if (first_key + c > position + row || first_key + c >= end) x[r][c] = -INFINITY;
      const float correction = online_softmax(x[r], softmax[r]);
#pragma unroll
      for (int c = 0; c < S::kOut; ++c) sum[r][c] *= correction;
      if constexpr (kDropout) {
        float keep[S::kColumns];
        keep_run(keep, at.first_element + static_cast<std::uint64_t>((i + row) * s.T + first_key),
                 at.sample, mask);
#pragma unroll
        for (int c = 0; c < S::kColumns; ++c) x[r][c] *= keep[c];
      }
    }
    put_scores<S>(scores, x);
    __syncthreads();  // values are there
    add_weighted_rows<S>(sum, scores, values);
  }
  float inverse[kRows];
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    inverse[r] = 1.0f / softmax[r].sum;
    const Index row = ty * kRows + r;
    if (lse != nullptr && tx == 0 && row < rows)
      lse[at.row + i + row] = softmax[r].max + logf(softmax[r].sum);
  }
  store_rows<S>(out + at.out + i * s.out_row, s.out_row, rows, s.head, sum, inverse);
}

template <class T, class S>
void run(T* out, float* lse, const T* q, const T* k, const T* v, const AttentionShape& s,
         const Mask& mask, cudaStream_t stream) {
  constexpr std::size_t kShared = (2 * S::kFloats + S::kScoreFloats) * sizeof(float);
  const auto kernel = mask.threshold != 0 ? attention_forward_kernel<T, S, true>
                                          : attention_forward_kernel<T, S, false>;
  allow_shared(kernel, kShared);
  const dim3 grid(blocks_for(s.T, S::kTile), narrow<unsigned>(s.H), narrow<unsigned>(s.B));
  launch(kernel, grid, S::kThreads, kShared, stream, out, lse, q, k, v, s, mask,
         1.0f / std::sqrt(static_cast<float>(s.head)), wide_heads<T>(s, q, k, v));
}

}  // namespace

template <>
void attention_forward<float>(float* out, float* lse, const float* q, const float* k,
                              const float* v, const AttentionShape& s, const Mask& mask,
                              cudaStream_t stream) {
  if (s.B == 0 || s.T == 0) return;
  const auto run_head = s.head <= 32    ? run<float, TileSizes<32, 64>>
                        : s.head <= 64  ? run<float, TileSizes<64, 64>>
                        : s.head <= 128 ? run<float, TileSizes<128, 64>>
                                        : run<float, TileSizes<256, 32>>;
  run_head(out, lse, q, k, v, s, mask, stream);
}

template <class T>
void attention_forward_large(T* out, float* lse, const T* q, const T* k, const T* v,
                             const AttentionShape& s, const Mask& mask, cudaStream_t stream) {
  run<T, TileSizes<256, 32>>(out, lse, q, k, v, s, mask, stream);
}

#define CHIMERA_ATTENTION_LARGE(T)                                                   \
  template void attention_forward_large<T>(T*, float*, const T*, const T*, const T*, \
                                           const AttentionShape&, const Mask&, cudaStream_t);
CHIMERA_ATTENTION_LARGE(__nv_bfloat16)
CHIMERA_ATTENTION_LARGE(__half)

}  // namespace chimera::cuda
