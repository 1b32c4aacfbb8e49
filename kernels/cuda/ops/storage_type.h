#pragma once
// From a tensor's type to the type that kernels are instantiated for.
#include "chimera/tensor/tensor.h"
#include "device/port.h"

namespace chimera::cuda {

// The numbers of a tensor of T; null for an empty one.
template <class T>
struct As {
  using Type = T;
  T* operator()(const Tensor& x) const { return static_cast<T*>(x.raw()); }
};

// body(As<T>()) for the T of `type`: F32, BF16 or F16, as checked before.
template <class Body>
void for_storage(DType type, const Body& body) {
  switch (type) {
    case DType::BF16: return body(As<__nv_bfloat16>());
    case DType::F16: return body(As<__half>());
    default: return body(As<float>());
  }
}

}  // namespace chimera::cuda
