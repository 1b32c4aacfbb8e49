// Causal attention over bf16 and fp16, forward: the algorithm of attention_forward.cu on tensor
// cores.
#include "attention_wmma.h"

namespace chimera::cuda {
namespace {

// Column of the scores' rows where the rows' factors lie, beside the weights: a block of 16 equal
// columns, so that a fragment of it has the factor of each row wherever a fragment of out has that
// row.
constexpr int kFactorColumn = 40;

template <class T, class S, bool kDropout>
__global__ void __launch_bounds__(kTensorThreads)
    attention_forward_tensor_kernel(T* out, float* lse, const T* q, const T* k, const T* v,
                                    AttentionShape s, Mask mask, float scale, bool wide) {
  static_assert(S::kRight == kTensorTile);
  CHIMERA_DYNAMIC_SHARED(T, shared);
  T *queries = shared, *keys = queries + S::kNumbers, *values = keys + S::kNumbers;
  float* scores = reinterpret_cast<float*>(values + S::kNumbers) + warp_row() * S::kScoreRow;
  const Index i = static_cast<Index>(gridDim.x - 1 - blockIdx.x) * kTensorTile;
  const HeadOffsets at = head_offsets(s, mask, blockIdx.y, blockIdx.z);
  const Index rows = s.T - i < kTensorTile ? s.T - i : kTensorTile;
  const Index position = s.first + i, end = position + rows;
  const int blocks = static_cast<int>((s.head + kSide - 1) / kSide);
  load_numbers<S, kTensorTile>(queries, q + at.q + i * s.q_row, s.q_row, rows, s.head, wide);
  float max[kRowGroups], sum[kRowGroups];  // in units of log2(e)
  for (int g = 0; g < kRowGroups; ++g) max[g] = -INFINITY, sum[g] = 0;
  Sums acc[S::kBlocks];
  for (auto& a : acc) wmma::fill_fragment(a, 0.0f);
  for (Index j = 0; j < end; j += kTensorTile) {
    const Index here = end - j < kTensorTile ? end - j : kTensorTile;
    __syncthreads();  // the tile before has been used
    load_numbers<S, kTensorTile>(keys, k + at.kv + j * s.kv_row, s.kv_row, here, s.head, wide);
    load_numbers<S, kTensorTile>(values, v + at.kv + j * s.kv_row, s.kv_row, here, s.head, wide);
    __syncthreads();
    score_products<S>(scores, queries + warp_row() * S::kStride, keys, blocks);
    bool moved = false;
#pragma unroll
    for (int g = 0; g < kRowGroups; ++g) {
      const int row = lane_row(g);
      const Index query = position + warp_row() + row, first_key = j + lane_column<S>();
      float x[S::kRun];
      read_run<S>(x, scores, row);
      float best = max[g];
#pragma unroll
      for (int c = 0; c < S::kRun; ++c) {
        x[c] = first_key + c > query || first_key + c >= end ? -INFINITY : x[c] * scale;
        best = fmaxf(best, x[c]);
      }
      for (int distance = kRowLanes / 2; distance > 0; distance /= 2)
        best = fmaxf(best, __shfl_xor_sync(kAllLanes, best, distance));
      const float factor = exp2f(max[g] - best);
      float total = 0;
#pragma unroll
      for (int c = 0; c < S::kRun; ++c) {
        x[c] = exp2f(x[c] - best);
        total += x[c];
      }
      for (int distance = kRowLanes / 2; distance > 0; distance /= 2)
        total += __shfl_xor_sync(kAllLanes, total, distance);
      sum[g] = sum[g] * factor + total;
      moved = moved || max[g] != best;
      max[g] = best;
      if constexpr (kDropout) {
        float keep[S::kRun];
        keep_run(
            keep,
            at.first_element + static_cast<std::uint64_t>((i + warp_row() + row) * s.T + first_key),
            at.sample, mask);
#pragma unroll
        for (int c = 0; c < S::kRun; ++c) x[c] *= keep[c];
      }
      __syncwarp();  // the row's scores have been read
      write_run<T, S>(scores, x, row);
      const int lane_of_row = static_cast<int>(threadIdx.x) % kRowLanes;
      for (int c = lane_of_row; c < kSide; c += kRowLanes)
        scores[row * S::kScoreRow + kFactorColumn + c] = factor;
    }
    __syncwarp();
    if (__any_sync(kAllLanes, moved)) {
      Sums factors;
      wmma::load_matrix_sync(factors, scores + kFactorColumn, S::kScoreRow, wmma::mem_row_major);
      for (auto& a : acc)
        for (int e = 0; e < Sums::num_elements; ++e) a.x[e] *= factors.x[e];
    }
    add_weighted<S>(acc, reinterpret_cast<const T*>(scores), values, blocks);
  }
  float inverse[kRowGroups];
#pragma unroll
  for (int g = 0; g < kRowGroups; ++g) {
    inverse[g] = 1.0f / sum[g];
    const Index row = warp_row() + lane_row(g);
    if (lse != nullptr && lane_column<S>() == 0 && row < rows)
      lse[at.row + i + row] = (max[g] + log2f(sum[g])) * kLn2;
  }
  store_out<S>(out + at.out + i * s.out_row, s.out_row, rows, s.head, acc, scores, inverse, wide);
}

template <class T, class S>
void run(T* out, float* lse, const T* q, const T* k, const T* v, const AttentionShape& s,
         const Mask& mask, cudaStream_t stream) {
  constexpr std::size_t kShared = 3 * S::kNumbers * sizeof(T) + S::kScoreFloats * sizeof(float);
  const auto kernel = mask.threshold != 0 ? attention_forward_tensor_kernel<T, S, true>
                                          : attention_forward_tensor_kernel<T, S, false>;
  allow_shared(kernel, kShared);
  const dim3 grid(blocks_for(s.T, kTensorTile), narrow<unsigned>(s.H), narrow<unsigned>(s.B));
  launch(kernel, grid, kTensorThreads, kShared, stream, out, lse, q, k, v, s, mask,
         kLog2e / std::sqrt(static_cast<float>(s.head)), wide_heads<T>(s, q, k, v, out));
}

template <class T>
void run_any(T* out, float* lse, const T* q, const T* k, const T* v, const AttentionShape& s,
             const Mask& mask, cudaStream_t stream) {
  if (s.B == 0 || s.T == 0) return;
  const auto run_head = s.head <= 32    ? run<T, TensorSizes<32>>
                        : s.head <= 64  ? run<T, TensorSizes<64>>
                        : s.head <= 128 ? run<T, TensorSizes<128>>
                                        : attention_forward_large<T>;
  run_head(out, lse, q, k, v, s, mask, stream);
}

}  // namespace

template <>
void attention_forward<__nv_bfloat16>(__nv_bfloat16* out, float* lse, const __nv_bfloat16* q,
                                      const __nv_bfloat16* k, const __nv_bfloat16* v,
                                      const AttentionShape& s, const Mask& mask,
                                      cudaStream_t stream) {
  run_any(out, lse, q, k, v, s, mask, stream);
}
template <>
void attention_forward<__half>(__half* out, float* lse, const __half* q, const __half* k,
                               const __half* v, const AttentionShape& s, const Mask& mask,
                               cudaStream_t stream) {
  run_any(out, lse, q, k, v, s, mask, stream);
}

}  // namespace chimera::cuda
