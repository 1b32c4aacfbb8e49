#include "scratch.h"

namespace chimera::cuda {

Scratch::~Scratch() {
  if (memory_ != nullptr) cudaFree(memory_);
}

void* Scratch::bytes(Index needed) {
  if (needed <= size_) return memory_;
  check_cuda(cudaStreamSynchronize(stream_), "waiting to grow the kernels' scratch memory");
  if (memory_ != nullptr) check_cuda(cudaFree(memory_), "freeing the kernels' scratch memory");
  memory_ = nullptr;
  size_ = 0;
  const cudaError_t status = cudaMalloc(&memory_, static_cast<std::size_t>(needed));
  if (status != cudaSuccess) {
    cudaGetLastError();  // out of memory is not the state of the device, only of this request
    memory_ = nullptr;
    Fail("cannot allocate ", needed,
         " bytes of scratch memory on the GPU: ", cudaGetErrorString(status),
         "; use a smaller micro-batch");
  }
  size_ = needed;
  return memory_;
}

}  // namespace chimera::cuda
