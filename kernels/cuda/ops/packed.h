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

// W numbers of T as they are moved: in words of 16 bytes, or one of 8.
template <class T, int W>
struct Raw {
  using Word = std::conditional_t<W * sizeof(T) % kPackBytes == 0, uint4, uint2>;
  static_assert(W * sizeof(T) % sizeof(Word) == 0);
  static constexpr int kPer = sizeof(Word) / sizeof(T), kWords = W / kPer;
  Word word[kWords];
};

// The numbers from p on; those beyond the extent are 0. A thread that needs several packs loads
// them all before it unpacks any, so that they are on their way together.
template <class T, int W>
__device__ void load_raw(Raw<T, W>& raw, const T* p, Extent extent) {
  using R = Raw<T, W>;
  if (extent.wide && extent.count >= W) {
#pragma unroll
    for (int v = 0; v < R::kWords; ++v)
      raw.word[v] = reinterpret_cast<const typename R::Word*>(p)[v];
  } else {
    T x[W];
#pragma unroll
    for (int k = 0; k < W; ++k) x[k] = k < extent.count ? p[k] : from_float<T>(0.0f);
    memcpy(raw.word, static_cast<const void*>(x), sizeof x);
  }
}
template <class T, int W>
__device__ void unpack(float (&x)[W], const Raw<T, W>& raw) {
#pragma unroll
  for (int v = 0; v < Raw<T, W>::kWords; ++v) {
    T part[Raw<T, W>::kPer];
    memcpy(static_cast<void*>(part), raw.word + v, sizeof part);
#pragma unroll
    for (int k = 0; k < Raw<T, W>::kPer; ++k) x[v * Raw<T, W>::kPer + k] = to_float(part[k]);
  }
}
// Both at once, for a pack alone.
template <int W, class T>
__device__ void load(float (&x)[W], const T* p, Extent extent) {
  Raw<T, W> raw;
  load_raw(raw, p, extent);
  unpack(x, raw);
}

template <class T, int W>
__device__ void store_raw(T* p, const Raw<T, W>& raw, Extent extent) {
  if (extent.wide && extent.count >= W) {
#pragma unroll
    for (int v = 0; v < Raw<T, W>::kWords; ++v)
      reinterpret_cast<typename Raw<T, W>::Word*>(p)[v] = raw.word[v];
  } else {
    T x[W];
    memcpy(static_cast<void*>(x), raw.word, sizeof x);
#pragma unroll
    for (int k = 0; k < W; ++k)
      if (k < extent.count) p[k] = x[k];
  }
}
// Rounded to T.
template <class T, int W>
__device__ void pack(Raw<T, W>& raw, const float (&x)[W]) {
  T rounded[W];
#pragma unroll
  for (int k = 0; k < W; ++k) rounded[k] = from_float<T>(x[k]);
  memcpy(raw.word, static_cast<const void*>(rounded), sizeof rounded);
}
template <int W, class T>
__device__ void store(T* p, const float (&x)[W], Extent extent) {
  Raw<T, W> raw;
  pack(raw, x);
  store_raw(p, raw, extent);
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
