#pragma once
// Qualifiers, vector types and the memory pattern of the emulated CUDA.
#include <cstddef>
#include <cstdint>

#define __global__
#define __device__
#define __host__
#define __constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __align__(n) __attribute__((aligned(n)))
#define __grid_constant__
// One NOP per warp at the kernel's entry: a launch can so read what was promised. Clang does not
// take a template's parameter here.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define __launch_bounds__(threads, ...) \
  __attribute__((patchable_function_entry(((threads) + 31) / 32)))
#else
#define __launch_bounds__(...)
#endif
// Static shared memory lies in a section of its own, so that every block finds it poisoned. Kernels
// run one at a time. GCC forgets the attribute `section` of variables in templates, but not
// `noinit`, which chooses the section .noinit.
#if defined(__clang__)
#define __shared__ static __attribute__((section(".noinit")))
#else
#define __shared__ static __attribute__((noinit))
#endif
#define CHIMERA_DYNAMIC_SHARED(type, name) \
  type* const name = reinterpret_cast<type*>(::emulator::dynamic_shared())

struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  constexpr dim3(unsigned vx = 1, unsigned vy = 1, unsigned vz = 1) : x(vx), y(vy), z(vz) {}
  constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
  constexpr operator uint3() const { return {x, y, z}; }
};

#define EMULATOR_VECTOR_TYPES(base, name, align1, align2, align4)     \
  struct name##1 {                                                    \
    base x;                                                           \
  };                                                                  \
  struct __align__(align2) name##2 {                                  \
    base x, y;                                                        \
  };                                                                  \
  struct __align__(align4) name##4 {                                  \
    base x, y, z, w;                                                  \
  };                                                                  \
  constexpr name##1 make_##name##1(base x) { return {x}; }            \
  constexpr name##2 make_##name##2(base x, base y) { return {x, y}; } \
  constexpr name##4 make_##name##4(base x, base y, base z, base w) { return {x, y, z, w}; }
EMULATOR_VECTOR_TYPES(int, int, 4, 8, 16)
EMULATOR_VECTOR_TYPES(unsigned, uint, 4, 8, 16)
EMULATOR_VECTOR_TYPES(float, float, 4, 8, 16)
EMULATOR_VECTOR_TYPES(short, short, 2, 4, 8)
EMULATOR_VECTOR_TYPES(unsigned short, ushort, 2, 4, 8)
EMULATOR_VECTOR_TYPES(unsigned char, uchar, 1, 2, 4)
EMULATOR_VECTOR_TYPES(double, double, 8, 16, 16)
EMULATOR_VECTOR_TYPES(long long, longlong, 8, 16, 16)
EMULATOR_VECTOR_TYPES(unsigned long long, ulonglong, 8, 16, 16)
#undef EMULATOR_VECTOR_TYPES
struct float3 {
  float x, y, z;
};
struct int3 {
  int x, y, z;
};
constexpr float3 make_float3(float x, float y, float z) { return {x, y, z}; }
constexpr int3 make_int3(int x, int y, int z) { return {x, y, z}; }
constexpr uint3 make_uint3(unsigned x, unsigned y, unsigned z) { return {x, y, z}; }

namespace emulator {
// Uninitialised memory holds this in every 16 bits: a quiet NaN as bf16, fp16, fp32 and fp64.
constexpr std::uint16_t kPoison = 0xFFE5;
void poison(void* memory, std::size_t bytes);
}  // namespace emulator
