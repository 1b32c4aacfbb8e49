#include "ops/kernels.h"

namespace chimera::cuda {
namespace {
__global__ void nothing_kernel() {}
}  // namespace

cudaError_t probe_kernels() {
  return cudaFuncSetAttribute(nothing_kernel, cudaFuncAttributePreferredSharedMemoryCarveout, 0);
}

}  // namespace chimera::cuda
