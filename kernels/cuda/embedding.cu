// Token and position embedding. Backward without floating-point atomics: rows are sorted by token,
// equal tokens in row order, and each token's rows are added by one thread per pack of columns. So
// the sums run in ascending order of rows, as on the CPU.
#include <algorithm>

#include "kernels.h"
#include "packed.h"
#include "reduce.h"
#include "scratch.h"

namespace chimera::cuda {
namespace {

// The token of row r; one outside the vocabulary is noted in *bad and read as 0.
__device__ Index token_at(const std::int32_t* tokens, Index r, Index V, BadId* bad) {
  const std::int32_t token = tokens[r];
  if (token >= 0 && token < V) return token;
  atomicMin(bad, static_cast<BadId>(r) << 32 | static_cast<std::uint32_t>(token));
  return 0;
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    embedding_forward_kernel(T* x, const std::int32_t* tokens, const T* wte, const T* wpe,
                             BadId* bad, Index tokens_of_sample, Index C, Index V, bool wide) {
  constexpr int W = kPack<T>;
  const Index r = blockIdx.x;
  const Index token = token_at(tokens, r, V, bad);
  const T *from = wte + token * C, *position = wpe + r % tokens_of_sample * C;
  for (Index c = static_cast<Index>(threadIdx.x) * W; c < C;
       c += static_cast<Index>(blockDim.x) * W) {
    const Extent extent = extent_of(C - c, wide);
    float a[W], b[W];
    load(a, from + c, extent);
    load(b, position + c, extent);
#pragma unroll
    for (int k = 0; k < W; ++k) a[k] += b[k];
    store(x + r * C + c, a, extent);
  }
}

// order[place] = row, where place is the number of rows that sort before it. Quadratic in rows and
// still short beside the step they belong to: 16,384 rows are 2.7e8 comparisons.
__global__ void __launch_bounds__(kThreads)
    sort_rows_kernel(std::int32_t* order, const std::int32_t* tokens, BadId* bad, Index R,
                     Index V) {
  __shared__ std::int32_t tile[kThreads];
  const Index r = thread_index();
  const std::int32_t own = r < R ? static_cast<std::int32_t>(token_at(tokens, r, V, bad)) : 0;
  std::int32_t place = 0;
  for (Index first = 0; first < R; first += kThreads) {
    const Index mine = first + threadIdx.x;
    __syncthreads();
    if (mine < R) {
      const std::int32_t token = tokens[mine];
      tile[threadIdx.x] = token >= 0 && token < V ? token : 0;
    }
    __syncthreads();
    const int count = R - first < kThreads ? static_cast<int>(R - first) : kThreads;
    // Rows of an earlier tile win ties, those of a later one lose them.
    const Index block_first = static_cast<Index>(blockIdx.x) * kThreads;
    if (first < block_first) {
      for (int i = 0; i < count; ++i) place += tile[i] <= own;
    } else if (first > block_first) {
      for (int i = 0; i < count; ++i) place += tile[i] < own;
    } else {
      for (int i = 0; i < count; ++i)
        place += tile[i] < own || (tile[i] == own && i < static_cast<int>(threadIdx.x));
    }
  }
  if (r < R) order[place] = static_cast<std::int32_t>(r);
}

// One block per place of the sorted rows; those that do not begin a token's run have nothing to do.
template <class T>
__global__ void __launch_bounds__(kThreads)
    add_tokens_kernel(float* dwte, const T* dx, const std::int32_t* tokens,
                      const std::int32_t* order, Index R, Index C, Index V, bool wide) {
  constexpr int W = kPack<T>;
  const auto token_of_place = [&](Index place) {
    const std::int32_t token = tokens[order[place]];
    return token >= 0 && token < V ? token : 0;
  };
  const Index begin = blockIdx.x;
  const std::int32_t token = token_of_place(begin);
  if (begin > 0 && token_of_place(begin - 1) == token) return;
  Index end = begin + 1;
  for (;; end += kWarp) {
    const Index place = end + threadIdx.x % kWarp;
    const unsigned other = ~__ballot_sync(kAllLanes, place < R && token_of_place(place) == token);
    if (other == 0) continue;
    end += __ffs(static_cast<int>(other)) - 1;
    break;
  }
  for (Index c = static_cast<Index>(threadIdx.x) * W; c < C;
       c += static_cast<Index>(blockDim.x) * W) {
    const Extent extent = extent_of(C - c, wide);
    float sum[W], d[W];
    load(sum, dwte + token * C + c, extent);
#pragma unroll 4
    for (Index place = begin; place < end; ++place) {
      load(d, dx + order[place] * C + c, extent);
#pragma unroll
      for (int k = 0; k < W; ++k) sum[k] += d[k];
    }
    store(dwte + token * C + c, sum, extent);
  }
}

// One block per position: rows t, T + t, 2 T + t, ...
template <class T>
__global__ void __launch_bounds__(kThreads)
    add_positions_kernel(float* dwpe, const T* dx, Index tokens_of_sample, Index R, Index C,
                         bool wide) {
  constexpr int W = kPack<T>;
  const Index t = blockIdx.x;
  for (Index c = static_cast<Index>(threadIdx.x) * W; c < C;
       c += static_cast<Index>(blockDim.x) * W) {
    const Extent extent = extent_of(C - c, wide);
    float sum[W], d[W];
    load(sum, dwpe + t * C + c, extent);
    for (Index r = t; r < R; r += tokens_of_sample) {
      load(d, dx + r * C + c, extent);
#pragma unroll
      for (int k = 0; k < W; ++k) sum[k] += d[k];
    }
    store(dwpe + t * C + c, sum, extent);
  }
}

// Threads of a block that walks one row: enough for its packs, whole warps.
template <class T>
unsigned row_threads(Index C) {
  return static_cast<unsigned>(
      std::min<Index>(kThreads, round_up<Index>(ceil_div<Index>(C, kPack<T>), kWarp)));
}

template <class T>
bool wide_rows(Index C) {
  return C % kPack<T> == 0;
}

}  // namespace

template <class T>
void embedding_forward(T* x, const std::int32_t* tokens, const T* wte, const T* wpe, BadId* bad,
                       Index tokens_of_sample, Index R, Index C, Index V, cudaStream_t stream) {
  if (R == 0 || C == 0) return;
  launch(embedding_forward_kernel<T>, narrow<unsigned>(R), row_threads<T>(C), 0, stream, x, tokens,
         wte, wpe, bad, tokens_of_sample, C, V, wide_rows<T>(C) && aligned(x, wte, wpe));
}

template <class T>
void embedding_backward(float* dwte, float* dwpe, const T* dx, const std::int32_t* tokens,
                        BadId* bad, Index tokens_of_sample, Index R, Index C, Index V,
                        Scratch& scratch, cudaStream_t stream) {
  if (R == 0 || C == 0) return;
  const unsigned rows = narrow<unsigned>(narrow<std::int32_t>(R));
  std::int32_t* order = scratch.get<std::int32_t>(R);
  const bool wide = wide_rows<T>(C) && aligned(dwte, dx, dwpe);
  launch(sort_rows_kernel, blocks_for(R), kThreads, 0, stream, order, tokens, bad, R, V);
  launch(add_tokens_kernel<T>, rows, row_threads<T>(C), 0, stream, dwte, dx, tokens, order, R, C, V,
         wide);
  if (dwpe == nullptr) return;
  const Index positions = std::min(tokens_of_sample, R);
  launch(add_positions_kernel<T>, narrow<unsigned>(positions), row_threads<T>(C), 0, stream, dwpe,
         dx, tokens_of_sample, R, C, wide);
}

#define CHIMERA_EMBEDDING(T)                                                                     \
  template void embedding_forward<T>(T*, const std::int32_t*, const T*, const T*, BadId*, Index, \
                                     Index, Index, Index, cudaStream_t);                         \
  template void embedding_backward<T>(float*, float*, const T*, const std::int32_t*, BadId*,     \
                                      Index, Index, Index, Index, Scratch&, cudaStream_t);
CHIMERA_EMBEDDING(float)
CHIMERA_EMBEDDING(__nv_bfloat16)
CHIMERA_EMBEDDING(__half)

}  // namespace chimera::cuda
