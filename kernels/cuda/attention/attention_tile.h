#pragma once
// What attention's two directions share: tiles in shared memory, their products in fp32, and the
// dropout multipliers of a run of keys.
//
// A block of threads is a grid of kLanes columns; thread (ty, tx) owns kRows neighbouring rows of
// the left tile and `kTile / kLanes` neighbouring rows of the right one. A right tile is stored so
// that the rows that the lanes read together lie next to each other: row r at place(r). Rows have
// kPad floats more than numbers: 128-bit reads down a tile then meet no bank twice.
#include "ops/kernels.h"
#include "ops/packed.h"
#include "ops/philox.h"
#include "ops/reduce.h"

namespace chimera::cuda {

constexpr int kLanes = 16;
constexpr int kRows = 4;
constexpr int kPad = 4;

// Sizes of a kernel for heads of up to kMaxHeadSize numbers, with kTileRows queries or keys in a
// tile.
template <int kMaxHeadSize, int kTileRows>
struct TileSizes {
  static constexpr int kHead = kMaxHeadSize, kTile = kTileRows;
  static constexpr int kThreads = kTile / kRows * kLanes;
  static constexpr int kColumns = kTile / kLanes;    // rows of the right tile that a thread owns
  static constexpr int kOut = kHead / kLanes;        // columns of a product with a head's width
  static constexpr int kStride = kHead + kPad;       // floats from row to row
  static constexpr int kScoreStride = kTile + kPad;  // the same in a tile of scores
  static constexpr int kFloats = kTile * kStride;
  static constexpr int kScoreFloats = kTile * kScoreStride;
};

template <class S>
__device__ constexpr int place(int row) {
  return row % S::kColumns * kLanes + row / S::kColumns;
}

enum class Side { Left, Right };

// rows of (rows, head) numbers, `stride` apart, times `scale`, into a tile; missing rows and
// columns become 0.
template <class S, Side kSide, class T>
__device__ void load_tile(float* tile, const T* from, Index stride, Index rows, Index head,
                          float scale, bool wide) {
  constexpr int W = kPack<T>, kPacks = S::kHead / W;
  for (int i = static_cast<int>(threadIdx.x); i < S::kTile * kPacks; i += S::kThreads) {
    const int row = i / kPacks, c = i % kPacks * W;
    float x[W] = {};
    if (row < rows && c < head) load(x, from + row * stride + c, extent_of(head - c, wide));
#pragma unroll
    for (int k = 0; k < W; ++k) x[k] *= scale;
    const int at = kSide == Side::Left ? row : place<S>(row);
    store(tile + at * S::kStride + c, x, {W, true});
  }
}

__device__ inline float4 read4(const float* p) { return *reinterpret_cast<const float4*>(p); }

// sum[i][j] = left row (ty * kRows + i) . right row (tx * kColumns + j), over `depth` numbers, a
// multiple of 4.
template <class S>
__device__ void row_products(float (&sum)[kRows][S::kColumns], const float* left,
                             const float* right, int depth) {
  const int ty = static_cast<int>(threadIdx.x) / kLanes,
            tx = static_cast<int>(threadIdx.x) % kLanes;
#pragma unroll
  for (int i = 0; i < kRows; ++i)
#pragma unroll
    for (int j = 0; j < S::kColumns; ++j) sum[i][j] = 0;
  for (int d = 0; d < depth; d += 4) {
    float4 a[kRows], b[S::kColumns];
#pragma unroll
    for (int i = 0; i < kRows; ++i) a[i] = read4(left + (ty * kRows + i) * S::kStride + d);
#pragma unroll
    for (int j = 0; j < S::kColumns; ++j) b[j] = read4(right + (j * kLanes + tx) * S::kStride + d);
#pragma unroll
    for (int i = 0; i < kRows; ++i)
#pragma unroll
      for (int j = 0; j < S::kColumns; ++j) {
        sum[i][j] += a[i].x * b[j].x;
        sum[i][j] += a[i].y * b[j].y;
        sum[i][j] += a[i].z * b[j].z;
        sum[i][j] += a[i].w * b[j].w;
      }
  }
}

// The thread's scores into a tile of scores (left rows, right rows). Only threads of the same warp
// read its rows.
template <class S>
__device__ void put_scores(float* scores, const float (&x)[kRows][S::kColumns]) {
  const int ty = static_cast<int>(threadIdx.x) / kLanes,
            tx = static_cast<int>(threadIdx.x) % kLanes;
  __syncwarp();  // the warp has read what was there
#pragma unroll
  for (int i = 0; i < kRows; ++i)
#pragma unroll
    for (int j = 0; j < S::kColumns; ++j)
      scores[(ty * kRows + i) * S::kScoreStride + tx * S::kColumns + j] = x[i][j];
  __syncwarp();
}

// out[i][c] += the scores' row (ty * kRows + i) times the right tile's columns tx, tx + kLanes, ...
template <class S>
__device__ void add_weighted_rows(float (&out)[kRows][S::kOut], const float* scores,
                                  const float* right) {
  const int ty = static_cast<int>(threadIdx.x) / kLanes,
            tx = static_cast<int>(threadIdx.x) % kLanes;
  for (int k = 0; k < S::kTile; k += 4) {
    float4 p[kRows];
#pragma unroll
    for (int i = 0; i < kRows; ++i) p[i] = read4(scores + (ty * kRows + i) * S::kScoreStride + k);
    const float* rows[4];
#pragma unroll
    for (int e = 0; e < 4; ++e) rows[e] = right + place<S>(k + e) * S::kStride + tx;
#pragma unroll
    for (int c = 0; c < S::kOut; ++c) {
      float v[4];
#pragma unroll
      for (int e = 0; e < 4; ++e) v[e] = rows[e][c * kLanes];
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        out[i][c] += p[i].x * v[0];
        out[i][c] += p[i].y * v[1];
        out[i][c] += p[i].z * v[2];
        out[i][c] += p[i].w * v[3];
      }
    }
  }
}

// keep[k] = multiplier of element + k, for a run that may begin anywhere in a Philox block.
template <int N>
__device__ void keep_run(float (&keep)[N], std::uint64_t element, std::uint64_t sample,
                         const Mask& mask) {
  uint4 words{};
  std::uint64_t block = ~std::uint64_t{0};
#pragma unroll
  for (int k = 0; k < N; ++k) {
    const std::uint64_t e = element + static_cast<std::uint64_t>(k);
    if (e / 4 != block) {
      block = e / 4;
      words = philox(block, sample, mask);
    }
    const auto word = static_cast<unsigned>(e % 4);
    keep[k] = keep_scale(word == 0   ? words.x
                         : word == 1 ? words.y
                         : word == 2 ? words.z
                                     : words.w,
                         mask);
  }
}

// Sum and maximum over the lanes of a row.
__device__ inline float lanes_sum(float x) {
  for (int distance = kLanes / 2; distance > 0; distance /= 2)
    x += __shfl_xor_sync(kAllLanes, x, distance);
  return x;
}
__device__ inline float lanes_max(float x) {
  for (int distance = kLanes / 2; distance > 0; distance /= 2)
    x = fmaxf(x, __shfl_xor_sync(kAllLanes, x, distance));
  return x;
}

// Rows of the product of a tile of scores to memory, `stride` apart: the thread's, times scale[i].
template <class S, class T>
__device__ void store_rows(T* to, Index stride, Index rows, Index head,
                           const float (&x)[kRows][S::kOut], const float (&scale)[kRows]) {
  const int ty = static_cast<int>(threadIdx.x) / kLanes,
            tx = static_cast<int>(threadIdx.x) % kLanes;
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    const int row = ty * kRows + i;
    if (row >= rows) continue;
#pragma unroll
    for (int c = 0; c < S::kOut; ++c) {
      const int column = c * kLanes + tx;
      if (column < head) to[row * stride + column] = from_float<T>(x[i][c] * scale[i]);
    }
  }
}

// Where the numbers of one head of one sample begin.
struct HeadOffsets {
  Index q, kv, out;  // in q, in k and v, in out and dout
  Index row;         // in lse and delta: of query 0
  std::uint64_t sample;
  std::uint64_t first_element;  // of the head in its sample's (H, T, T) mask
};
__device__ inline HeadOffsets head_offsets(const AttentionShape& s, const Mask& mask, Index h,
                                           Index b) {
  return {b * s.q_sample + h * s.head,
          b * s.kv_sample + h * s.head,
          b * s.T * s.out_row + h * s.head,
          (b * s.H + h) * s.T,
          static_cast<std::uint64_t>(mask.first_sample + b),
          static_cast<std::uint64_t>(h * s.T) * static_cast<std::uint64_t>(s.T)};
}

// Whether every row of a head may be read in packs.
template <class T, class... P>
bool wide_heads(const AttentionShape& s, const P*... pointers) {
  const auto fits = [](Index n) { return n % kPack<T> == 0; };
  return fits(s.head) && fits(s.q_row) && fits(s.kv_row) && fits(s.q_sample) && fits(s.kv_sample) &&
         fits(s.out_row) && aligned(pointers...);
}

// The most dynamic shared memory that a block may ask for on the current device.
inline std::size_t shared_bytes_of_block() {
  int device = 0, bytes = 0;
  check_cuda(cudaGetDevice(&device), "asking for the current GPU");
  check_cuda(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
             "asking for the GPU's shared memory");
  return static_cast<std::size_t>(bytes);
}

// Dynamic shared memory beyond 48 KiB must be asked for, per kernel and device.
template <class Kernel>
void allow_shared(Kernel kernel, std::size_t bytes) {
  constexpr std::size_t kAlways = 48 * 1024;
  if (bytes > kAlways)
    check_cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    static_cast<int>(bytes)),
               "asking for shared memory for attention");
}

// Gradients of the output and what is saved, laid out as AttentionShape says.
template <class T>
struct BackwardInputs {
  const T *dout, *q, *k, *v;
  const float *lse, *delta;
};

// delta (B, H, T): rowsum(dout * out) of each query and head.
template <class T>
void attention_delta(float* delta, const T* dout, const T* out, const AttentionShape& shape,
                     cudaStream_t stream);
// Heads that are too large for the tensor core kernels, with products in fp32.
template <class T>
void attention_forward_large(T* out, float* lse, const T* q, const T* k, const T* v,
                             const AttentionShape& shape, const Mask& mask, cudaStream_t stream);
template <class T>
void attention_backward_large(T* dq, T* dk, T* dv, const BackwardInputs<T>& in,
                              const AttentionShape& shape, const Mask& mask, cudaStream_t stream);

}  // namespace chimera::cuda
