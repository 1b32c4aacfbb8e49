#pragma once
// Numbers of 16 bits on the device, for tests of kernels below the Ops interface.
#include "cuda/ops/kernels.h"
#include "kernels/kernel_support.h"
#include "on_device.h"

namespace chimera::test {

inline float widen_one(__nv_bfloat16 x) { return __bfloat162float(x); }
inline float widen_one(__half x) { return __half2float(x); }
inline float widen_one(float x) { return x; }
template <class T>
T narrow_one(float x) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>)
    return __float2bfloat16_rn(x);
  else if constexpr (std::is_same_v<T, __half>)
    return __float2half_rn(x);
  else
    return x;
}
// Twice half a unit in the last place, relative.
template <class T>
constexpr double kRounding = std::is_same_v<T, __half> ? 0x1p-10 : 0x1p-8;
template <class T>
constexpr DType kStorage = std::is_same_v<T, float>    ? DType::F32
                           : std::is_same_v<T, __half> ? DType::F16
                                                       : DType::BF16;

// Numbers of T on the device, rounded from floats.
template <class T>
struct Array {
  CudaDevice* device;
  std::size_t size;
  Buffer memory;

  Array(CudaDevice& d, const Floats& x)
      : device(&d), size(x.size()), memory(d, std::ssize(x) * Index{sizeof(T)}) {
    std::vector<T> host(size);
    for (std::size_t i = 0; i < size; ++i) host[i] = narrow_one<T>(x[i]);
    d.copy_in(memory.data(), host.data(), memory.bytes());
  }
  T* get() const { return reinterpret_cast<T*>(memory.data()); }
  Floats read() const {
    std::vector<T> host(size);
    device->copy_out(host.data(), memory.data(), memory.bytes());
    Floats out(size);
    for (std::size_t i = 0; i < size; ++i) out[i] = widen_one(host[i]);
    return out;
  }
};

// Numbers of the storage type, so that every kernel is given the same.
template <class T>
Floats storable(Index n, std::uint64_t seed) {
  Floats x = random_floats(n, seed);
  for (float& v : x) v = widen_one(narrow_one<T>(v));
  return x;
}

}  // namespace chimera::test
