// Token and position embedding. Backward without floating-point atomics: rows are sorted by token,
// equal tokens in row order, and each token's rows are added by one thread per pack of columns. So
// the sums run in ascending order of rows, as on the CPU.
#include <algorithm>

#include "device/scratch.h"
#include "kernels.h"
#include "packed.h"
#include "reduce.h"
#include "sort_rows.h"

namespace chimera::cuda {
namespace {

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
    Raw<T, W> raw_token, raw_position;
    load_raw(raw_token, from + c, extent);
    load_raw(raw_position, position + c, extent);
    float a[W], b[W];
    unpack(a, raw_token);
    unpack(b, raw_position);
#pragma unroll
    for (int k = 0; k < W; ++k) a[k] += b[k];
    store(x + r * C + c, a, extent);
  }
}

// sum += row(first), row(first + step), ... before `end`, in that order, several of them on their
// way together. row(i) is the address of a pack.
template <class T, class Row>
__device__ void add_rows(float (&sum)[kPack<T>], Index first, Index end, Index step, Extent extent,
                         const Row& row) {
  constexpr int W = kPack<T>, kAtOnce = 8;
  for (Index i = first; i < end; i += kAtOnce * step) {
    Raw<T, W> raw[kAtOnce];
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k)
      if (i + k * step < end) load_raw(raw[k], row(i + k * step), extent);
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      if (i + k * step >= end) break;
      float d[W];
      unpack(d, raw[k]);
#pragma unroll
      for (int w = 0; w < W; ++w) sum[w] += d[w];
    }
  }
}

// One block per place of the sorted rows; those that do not begin a token's run have nothing to do.
template <class T>
__global__ void __launch_bounds__(kThreads)
    add_tokens_kernel(float* dwte, const T* dx, const std::int32_t* tokens,
                      const std::int32_t* order, Index R, Index C, Index V, bool wide) {
  constexpr int W = kPack<T>;
  const auto token_of_place = [&](Index place) { return token_again(tokens, order[place], V); };
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
    float sum[W];
    load(sum, dwte + token * C + c, extent);
    add_rows<T>(sum, begin, end, 1, extent, [&](Index place) { return dx + order[place] * C + c; });
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
    float sum[W];
    load(sum, dwpe + t * C + c, extent);
    add_rows<T>(sum, t, R, tokens_of_sample, extent, [&](Index r) { return dx + r * C + c; });
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
  const std::int32_t* order = sort_rows(tokens, bad, R, V, scratch, stream);
  const bool wide = wide_rows<T>(C) && aligned(dwte, dx, dwpe);
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
