#pragma once
// How kernels are started: never by <<<>>>, so that one source serves nvcc and the emulator.
#include <cuda_runtime.h>

#include <array>
#include <cstddef>
#include <tuple>
#include <utility>

#include "chimera/base/check.h"

namespace chimera {

// Name of a kernel for messages, as the runtime knows it.
inline std::string kernel_name([[maybe_unused]] const void* kernel) {
#if CUDART_VERSION >= 12030
  const char* name = nullptr;
  if (cudaFuncGetName(&name, kernel) == cudaSuccess && name != nullptr) return name;
#endif
  return "a kernel";
}

inline std::string to_string(const dim3& d) { return concat(d.x, " x ", d.y, " x ", d.z); }

// Throws Error with what was attempted and CUDA's own words, unless `status` is success.
inline void check_cuda(cudaError_t status, const char* what) {
  ENSURE(status == cudaSuccess, what, ": ", cudaGetErrorName(status), ", ",
         cudaGetErrorString(status));
}

// Enqueues kernel(args...) on `stream`, the arguments converted to the kernel's parameters and
// copied now. `shared_bytes` is dynamic shared memory; above 48 KiB the kernel must have been given
// the attribute cudaFuncAttributeMaxDynamicSharedMemorySize first. Throws Error naming the kernel,
// the launch and CUDA's error where the launch is refused; errors inside the kernel come with the
// next synchronising call. An empty grid is refused: callers return early on empty tensors.
template <class... Params, class... Args>
void launch(void (*kernel)(Params...), dim3 grid, dim3 block, std::size_t shared_bytes,
            cudaStream_t stream, Args&&... args) {
  static_assert(sizeof...(Params) == sizeof...(Args),
                "the kernel takes another number of arguments");
  std::tuple<Params...> values(static_cast<Params>(std::forward<Args>(args))...);
  std::array<void*, sizeof...(Params) + 1> pointers = std::apply(
      [](auto&... value) {
        return std::array<void*, sizeof...(Params) + 1>{
            const_cast<void*>(static_cast<const volatile void*>(&value))..., nullptr};
      },
      values);
  const cudaError_t status =
      cudaLaunchKernel(kernel, grid, block, pointers.data(), shared_bytes, stream);
  ENSURE(status == cudaSuccess, "cannot launch ",
         kernel_name(reinterpret_cast<const void*>(kernel)), " on a grid of ", to_string(grid),
         " blocks of ", to_string(block), " threads with ", shared_bytes,
         " bytes of dynamic shared memory: ", cudaGetErrorName(status), ", ",
         cudaGetErrorString(status));
}

}  // namespace chimera
