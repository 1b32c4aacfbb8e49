#pragma once
// Storage types and 128-bit access. A thread works on a pack of kPack<T> neighbouring numbers, in
// registers as floats; a pack is moved at once where pointers and rows allow it and number by
// number elsewhere. Which thread computes which number never depends on that.
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "chimera/base/types.h"
#include "kernels.h"

namespace chimera::cuda {

template <class T>
constexpr int kPack = kPackBytes / static_cast<int>(sizeof(T));

__device__ inline float to_float(float x) { return x; }
__device__ inline float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ inline float to_float(__half x) { return __half2float(x); }
template <class T>
__device__ T from_float(float x);
template <>
__device__ inline float from_float<float>(float x) {
  return x;
}
template <>
__device__ inline __nv_bfloat16 from_float<__nv_bfloat16>(float x) {
  return __float2bfloat16_rn(x);
}
template <>
__device__ inline __half from_float<__half>(float x) {
  return __float2half_rn(x);
}

// Which numbers of a pack exist, and whether they may be moved at once.
struct Extent {
  int count;
  bool wide;
};

// What a pack of W numbers is moved in: words of 16 bytes, or one of 8.
template <int W, class T>
using MoveWord = std::conditional_t<W * sizeof(T) % kPackBytes == 0, uint4, uint2>;

// The pack of W numbers from p on; numbers beyond the extent read as 0.
template <int W, class T>
__device__ void load(float (&x)[W], const T* p, Extent extent) {
  using Word = MoveWord<W, T>;
  static_assert(W * sizeof(T) % sizeof(Word) == 0);
  if (extent.wide && extent.count >= W) {
    constexpr int kPer = sizeof(Word) / sizeof(T);
#pragma unroll
    for (int v = 0; v < W / kPer; ++v) {
      const Word raw = reinterpret_cast<const Word*>(p)[v];
      T part[kPer];
      memcpy(static_cast<void*>(part), &raw, sizeof part);
#pragma unroll
      for (int k = 0; k < kPer; ++k) x[v * kPer + k] = to_float(part[k]);
    }
  } else {
#pragma unroll
    for (int k = 0; k < W; ++k) x[k] = k < extent.count ? to_float(p[k]) : 0.0f;
  }
}

// The same from numbers of T already.
template <int W, class T>
__device__ void store_as(T* p, const T (&x)[W], Extent extent) {
  using Word = MoveWord<W, T>;
  static_assert(W * sizeof(T) % sizeof(Word) == 0);
  if (extent.wide && extent.count >= W) {
    constexpr int kPer = sizeof(Word) / sizeof(T);
#pragma unroll
    for (int v = 0; v < W / kPer; ++v) {
      Word raw;
      memcpy(&raw, static_cast<const void*>(x + v * kPer), sizeof raw);
      reinterpret_cast<Word*>(p)[v] = raw;
    }
  } else {
#pragma unroll
    for (int k = 0; k < W; ++k)
      if (k < extent.count) p[k] = x[k];
  }
}
template <int W, class T>
__device__ void store(T* p, const float (&x)[W], Extent extent) {
  T rounded[W];
#pragma unroll
  for (int k = 0; k < W; ++k) rounded[k] = from_float<T>(x[k]);
  store_as(p, rounded, extent);
}

// The extent of a pack that begins `rest` numbers before the end.
__device__ inline Extent extent_of(Index rest, bool wide) {
  return {rest < kPackBytes ? static_cast<int>(rest) : kPackBytes, wide};
}

constexpr int kThreads = 256;  // of a block, for work without structure

// Blocks for `units` units of work, one per thread.
inline unsigned blocks_for(Index units, int threads = kThreads) {
  return narrow<unsigned>(ceil_div<Index>(units, threads));
}
// The unit of work of this thread in a one-dimensional grid.
__device__ inline Index thread_index() {
  return static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x;
}

}  // namespace chimera::cuda
