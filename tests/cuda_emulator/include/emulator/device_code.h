#pragma once
// Built-in variables and functions of device code.
#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <type_traits>

#include "emulator/block.h"

#define threadIdx (::emulator::current_thread->thread)
#define blockIdx (::emulator::current_block.block)
#define blockDim (::emulator::current_block.threads)
#define gridDim (::emulator::current_block.grid)
constexpr int warpSize = 32;

// ---- Barriers and operations of a warp

inline void __syncthreads(emulator::Place place = emulator::Place::current()) {
  emulator::block_barrier(place);
}
inline int __syncthreads_count(int predicate, emulator::Place place = emulator::Place::current()) {
  return emulator::block_count(predicate != 0, place);
}
inline int __syncthreads_or(int predicate, emulator::Place place = emulator::Place::current()) {
  return emulator::block_count(predicate != 0, place) != 0;
}
inline int __syncthreads_and(int predicate, emulator::Place place = emulator::Place::current()) {
  return emulator::block_count(predicate == 0, place) == 0;
}
inline void __syncwarp(unsigned mask = 0xffffffffu,
                       emulator::Place place = emulator::Place::current()) {
  emulator::warp_operation(emulator::WarpKind::Barrier, mask, nullptr, nullptr, place);
}
// Not modelled: the emulator's memory is sequentially consistent.
inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __threadfence_system() {}

namespace emulator {

struct ShuffleLane {
  std::uint64_t value, result;
  int source;
};
void shuffle_lanes(void* const* lanes, unsigned members);

struct VoteLane {
  std::uint64_t value;
  unsigned ballot;  // members whose value is not 0
  unsigned same;    // members whose value is the lane's own
};
void vote_lanes(void* const* lanes, unsigned members);

// The value of lane `source`; undefined (poison) where that lane takes no part.
template <class T>
T shuffle(unsigned mask, T value, int source, const Place& place) {
  static_assert(sizeof(T) <= 8 && std::is_trivially_copyable_v<T>);
  ShuffleLane lane{0, 0, source};
  std::memcpy(&lane.value, &value, sizeof value);
  warp_operation(WarpKind::Shuffle, mask, &lane, shuffle_lanes, place);
  std::memcpy(static_cast<void*>(&value), &lane.result, sizeof value);
  return value;
}

inline VoteLane vote(unsigned mask, std::uint64_t value, const Place& place) {
  VoteLane lane{value, 0, 0};
  warp_operation(WarpKind::Vote, mask, &lane, vote_lanes, place);
  return lane;
}

// Shuffles act within segments of `width` lanes, a power of two.
void check_width(int width, const Place& place);

}  // namespace emulator

template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32,
              emulator::Place place = emulator::Place::current()) {
  emulator::check_width(width, place);
  const int lane = emulator::lane_id();
  return emulator::shuffle(mask, value, (lane & ~(width - 1)) | (source & (width - 1)), place);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32,
                  emulator::Place place = emulator::Place::current()) {
  emulator::check_width(width, place);
  const int lane = emulator::lane_id(), source = lane ^ lane_mask;
  const bool inside = source <= (lane | (width - 1));
  return emulator::shuffle(mask, value, inside ? source : lane, place);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32,
                   emulator::Place place = emulator::Place::current()) {
  emulator::check_width(width, place);
  const int lane = emulator::lane_id();
  const bool inside = (lane & (width - 1)) + static_cast<long>(delta) < width;
  return emulator::shuffle(mask, value, inside ? lane + static_cast<int>(delta) : lane, place);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32,
                 emulator::Place place = emulator::Place::current()) {
  emulator::check_width(width, place);
  const int lane = emulator::lane_id();
  const bool inside = (lane & (width - 1)) - static_cast<long>(delta) >= 0;
  return emulator::shuffle(mask, value, inside ? lane - static_cast<int>(delta) : lane, place);
}
inline unsigned __ballot_sync(unsigned mask, int predicate,
                              emulator::Place place = emulator::Place::current()) {
  return emulator::vote(mask, predicate != 0, place).ballot;
}
inline int __any_sync(unsigned mask, int predicate,
                      emulator::Place place = emulator::Place::current()) {
  return emulator::vote(mask, predicate != 0, place).ballot != 0;
}
inline int __all_sync(unsigned mask, int predicate,
                      emulator::Place place = emulator::Place::current()) {
  return emulator::vote(mask, predicate == 0, place).ballot == 0;
}
template <class T>
unsigned __match_any_sync(unsigned mask, T value,
                          emulator::Place place = emulator::Place::current()) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return emulator::vote(mask, bits, place).same;
}

// ---- Atomics. None on floating point: such sums depend on the order of threads, and the project's
// results do not.

template <class T, class V>
requires std::is_integral_v<T> T atomicAdd(T* address, V value) {
  return std::atomic_ref<T>(*address).fetch_add(static_cast<T>(value));
}
template <class T, class V>
requires std::is_integral_v<T> T atomicExch(T* address, V value) {
  return std::atomic_ref<T>(*address).exchange(static_cast<T>(value));
}
template <class T, class V>
requires std::is_integral_v<T> T atomicCAS(T* address, V expected, V value) {
  T old = static_cast<T>(expected);
  std::atomic_ref<T>(*address).compare_exchange_strong(old, static_cast<T>(value));
  return old;
}
template <class T, class V>
requires std::is_integral_v<T> T atomicOr(T* address, V value) {
  return std::atomic_ref<T>(*address).fetch_or(static_cast<T>(value));
}
template <class T, class V>
requires std::is_integral_v<T> T atomicAnd(T* address, V value) {
  return std::atomic_ref<T>(*address).fetch_and(static_cast<T>(value));
}
// One block runs at a time and no fiber is switched within these.
template <class T, class V>
requires std::is_integral_v<T> T atomicMax(T* address, V value) {
  const T old = *address;
  *address = std::max(old, static_cast<T>(value));
  return old;
}
template <class T, class V>
requires std::is_integral_v<T> T atomicMin(T* address, V value) {
  const T old = *address;
  *address = std::min(old, static_cast<T>(value));
  return old;
}

// ---- Loads and stores with a cache hint

template <class T>
T __ldg(const T* address) {
  return *address;
}
template <class T>
T __ldcs(const T* address) {
  return *address;
}
template <class T>
T __ldcg(const T* address) {
  return *address;
}
template <class T>
T __ldca(const T* address) {
  return *address;
}
template <class T>
void __stcs(T* address, T value) {
  *address = value;
}
template <class T>
void __stcg(T* address, T value) {
  *address = value;
}
template <class T>
void __stwt(T* address, T value) {
  *address = value;
}

// ---- Integers and bits

inline int __popc(unsigned x) { return std::popcount(x); }
inline int __popcll(unsigned long long x) { return std::popcount(x); }
inline int __clz(int x) { return std::countl_zero(static_cast<unsigned>(x)); }
inline int __clzll(long long x) { return std::countl_zero(static_cast<unsigned long long>(x)); }
inline int __ffs(int x) { return x == 0 ? 0 : 1 + std::countr_zero(static_cast<unsigned>(x)); }
inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>((std::uint64_t{a} * b) >> 32);
}
inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline int __float_as_int(float x) { return std::bit_cast<int>(x); }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline float __int_as_float(int x) { return std::bit_cast<float>(x); }

// ---- Arithmetic. The fast functions are as exact here as the others: bounds of tests must allow
// for the GPU's.

using std::isfinite, std::isinf, std::isnan;
inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
inline double rsqrt(double x) { return 1.0 / std::sqrt(x); }
inline float __expf(float x) { return std::exp(x); }
inline float __logf(float x) { return std::log(x); }
inline float __fdividef(float a, float b) { return a / b; }
inline float __frcp_rn(float x) { return 1.0f / x; }
inline float __frsqrt_rn(float x) { return 1.0f / std::sqrt(x); }
inline float __fsqrt_rn(float x) { return std::sqrt(x); }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __dadd_rn(double a, double b) { return a + b; }
inline float __uint2float_rn(unsigned x) { return static_cast<float>(x); }
inline float __int2float_rn(int x) { return static_cast<float>(x); }
inline float __saturatef(float x) { return x > 0 ? std::min(x, 1.0f) : 0.0f; }

inline int min(int a, int b) { return a < b ? a : b; }
inline int max(int a, int b) { return a > b ? a : b; }
inline unsigned min(unsigned a, unsigned b) { return a < b ? a : b; }
inline unsigned max(unsigned a, unsigned b) { return a > b ? a : b; }
inline long min(long a, long b) { return a < b ? a : b; }
inline long max(long a, long b) { return a > b ? a : b; }
inline long long min(long long a, long long b) { return a < b ? a : b; }
inline long long max(long long a, long long b) { return a > b ? a : b; }
inline float min(float a, float b) { return std::fmin(a, b); }
inline float max(float a, float b) { return std::fmax(a, b); }
inline double min(double a, double b) { return std::fmin(a, b); }
inline double max(double a, double b) { return std::fmax(a, b); }
