#include "scratch.h"

namespace chimera::cuda {

Scratch::~Scratch() {
  for (void* block : blocks_) cudaFree(block);
}

void* Scratch::bytes(Index needed) {
  if (needed <= size_) return blocks_.empty() ? nullptr : blocks_.back();
  void* memory = nullptr;
  const cudaError_t status = cudaMalloc(&memory, static_cast<std::size_t>(needed));
  if (status != cudaSuccess) {
    cudaGetLastError();  // out of memory is not the state of the device, only of this request
    Fail("cannot allocate ", needed,
         " bytes of scratch memory on the GPU: ", cudaGetErrorString(status),
         "; use a smaller micro-batch");
  }
  blocks_.push_back(memory);
  size_ = needed;
  return memory;
}

}  // namespace chimera::cuda
