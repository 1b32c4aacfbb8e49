#pragma once
// cudaLaunchKernel for a typed kernel: its arguments are copied, and each thread calls it.
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "emulator/runtime_api.h"

namespace emulator {

class KernelCall {
 public:
  virtual ~KernelCall() = default;
  virtual void run_thread() const = 0;

  struct PointerArgument {
    int position;  // from 1
    const void* address;
  };
  virtual std::vector<PointerArgument> pointers() const = 0;
};

// Checks the launch against the device's limits and puts it into the stream's queue.
cudaError_t enqueue_kernel(std::unique_ptr<KernelCall> call, const void* kernel, dim3 grid,
                           dim3 block, std::size_t shared_bytes, cudaStream_t stream);

template <class... Params>
class TypedCall final : public KernelCall {
 public:
  TypedCall(void (*kernel)(Params...), void** arguments)
      : TypedCall(kernel, arguments, std::index_sequence_for<Params...>()) {}
  void run_thread() const override { std::apply(kernel_, arguments_); }
  std::vector<PointerArgument> pointers() const override {
    std::vector<PointerArgument> out;
    int position = 0;
    const auto add = [&]<class T>(const T& value) {
      ++position;
      if constexpr (std::is_pointer_v<T>)
        out.push_back(
            {position, const_cast<const void*>(static_cast<const volatile void*>(value))});
    };
    std::apply([&](const auto&... values) { (add(values), ...); }, arguments_);
    return out;
  }

 private:
  template <std::size_t... I>
  TypedCall(void (*kernel)(Params...), [[maybe_unused]] void** arguments, std::index_sequence<I...>)
      : kernel_(kernel), arguments_(*static_cast<std::remove_const_t<Params>*>(arguments[I])...) {}

  void (*kernel_)(Params...);
  std::tuple<Params...> arguments_;
};

}  // namespace emulator

template <class... Params>
cudaError_t cudaLaunchKernel(void (*kernel)(Params...), dim3 grid, dim3 block, void** arguments,
                             std::size_t shared_bytes = 0, cudaStream_t stream = nullptr) {
  return emulator::enqueue_kernel(
      std::make_unique<emulator::TypedCall<Params...>>(kernel, arguments),
      reinterpret_cast<const void*>(kernel), grid, block, shared_bytes, stream);
}
