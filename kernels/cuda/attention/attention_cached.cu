// New rows of a sequence against its cache. Few rows (a token being generated) get a block each per
// head, whose warps share out the keys; more rows are a sequence like any other.
#include "ops/kernels.h"
#include "ops/packed.h"
#include "ops/reduce.h"

namespace chimera::cuda {
namespace {

constexpr int kDecodeWarps = kThreads / kWarp;
constexpr int kLaneColumns = static_cast<int>(kMaxHead) / kWarp;
constexpr Index kFewRows = 8;

template <class T>
__global__ void __launch_bounds__(kThreads)
    store_cached_kernel(T* keys, T* values, const T* qkv, Index first, Index R, Index C) {
  const Index i = thread_index();
  if (i >= R * C) return;
  const Index r = i / C, c = i % C;
  keys[(first + r) * C + c] = qkv[(r * 3 + 1) * C + c];
  values[(first + r) * C + c] = qkv[(r * 3 + 2) * C + c];
}

// A warp's part: the softmax over its keys and the values weighted by it, columns lane, lane + 32,
// ...
struct Part {
  float max = -INFINITY, sum = 0, out[kLaneColumns] = {};
};

template <class T>
__device__ float score(const float* query, const T* key, Index head, bool wide) {
  constexpr int W = kPack<T>;
  float sum = 0;
  for (Index d = 0; d < head; d += W) {
    float x[W];
    load(x, key + d, extent_of(head - d, wide));
#pragma unroll
    for (int k = 0; k < W; ++k)
      if (d + k < head) sum += query[d + k] * x[k];
  }
  return sum;
}

// 32 keys at once, one per lane for the scores, all lanes on one for the values.
template <class T>
__device__ void add_keys(Part& part, const float* query, const T* k, const T* v, Index first,
                         Index keys, const AttentionShape& s, bool wide) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const Index key = first + lane;
  const float x = key < keys ? score(query, k + key * s.kv_row, s.head, wide) : -INFINITY;
  const float max = fmaxf(part.max, warp_max(x)), factor = expf(part.max - max);
  const float p = key < keys ? expf(x - max) : 0.0f;
  part.max = max;
  part.sum = part.sum * factor + warp_sum(p);
  for (float& out : part.out) out *= factor;
  const int count = keys - first < kWarp ? static_cast<int>(keys - first) : kWarp;
  for (int j = 0; j < count; ++j) {
    const float weight = __shfl_sync(kAllLanes, p, j);
    const T* value = v + (first + j) * s.kv_row;
#pragma unroll
    for (int c = 0; c < kLaneColumns; ++c)
      if (lane + c * kWarp < s.head) part.out[c] += weight * to_float(value[lane + c * kWarp]);
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    attention_decode_kernel(T* out, const T* q, const T* k, const T* v, AttentionShape s,
                            float scale, bool wide) {
  __shared__ float query[kMaxHead], maxima[kDecodeWarps], sums[kDecodeWarps];
  __shared__ float outs[kDecodeWarps][kMaxHead];
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const Index row = blockIdx.x, offset = static_cast<Index>(blockIdx.y) * s.head;
  const Index keys = s.first + row + 1, d = threadIdx.x;
  if (d < s.head) query[d] = to_float(q[row * s.q_row + offset + d]) * scale;
  __syncthreads();
  Part part;
  for (Index first = warp * kWarp; first < keys; first += kThreads)
    add_keys(part, query, k + offset, v + offset, first, keys, s, wide);
  if (lane == 0) {
    maxima[warp] = part.max;
    sums[warp] = part.sum;
  }
#pragma unroll
  for (int c = 0; c < kLaneColumns; ++c) outs[warp][c * kWarp + lane] = part.out[c];
  __syncthreads();
  if (d >= s.head) return;
  float max = maxima[0];
  for (int w = 1; w < kDecodeWarps; ++w) max = fmaxf(max, maxima[w]);
  float sum = 0, total = 0;
  for (int w = 0; w < kDecodeWarps; ++w) {
    const float factor = expf(maxima[w] - max);  // 0 for a warp without keys
    sum += sums[w] * factor;
    total += outs[w][d] * factor;
  }
  out[row * s.out_row + offset + d] = from_float<T>(total / sum);
}

}  // namespace

template <class T>
void attention_cached(T* out, T* keys, T* values, const T* qkv, const AttentionShape& s,
                      cudaStream_t stream) {
  const Index R = s.T, C = s.out_row;
  if (R == 0) return;
  launch(store_cached_kernel<T>, blocks_for(R * C), kThreads, 0, stream, keys, values, qkv, s.first,
         R, C);
  if (R > kFewRows) return attention_forward<T>(out, nullptr, qkv, keys, values, s, Mask{}, stream);
  const bool wide = s.head % kPack<T> == 0 && C % kPack<T> == 0 && aligned(keys);
  launch(attention_decode_kernel<T>, dim3(static_cast<unsigned>(R), narrow<unsigned>(s.H)),
         kThreads, 0, stream, out, qkv, keys, values, s,
         1.0f / std::sqrt(static_cast<float>(s.head)), wide);
}

#define CHIMERA_ATTENTION_CACHED(T) \
  template void attention_cached<T>(T*, T*, T*, const T*, const AttentionShape&, cudaStream_t);
CHIMERA_ATTENTION_CACHED(float)
CHIMERA_ATTENTION_CACHED(__nv_bfloat16)
CHIMERA_ATTENTION_CACHED(__half)

}  // namespace chimera::cuda
