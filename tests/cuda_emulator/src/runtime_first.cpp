// The runtime without queues yet: every operation runs when it is enqueued.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "block_runner.h"

namespace emulator {
cudaError_t enqueue_kernel(std::unique_ptr<KernelCall> call, const void* kernel, dim3 grid,
                           dim3 block, std::size_t shared_bytes, cudaStream_t) {
  static BlockRunner blocks;
  const char* text = std::getenv("CHIMERA_EMULATOR_SEED");
  const auto error = blocks.run({std::move(call), kernel, grid, block, shared_bytes},
                                text ? std::strtoull(text, nullptr, 10) : 0);
  if (error) std::fprintf(stderr, "emulator: %s\n", error->c_str());
  return error ? cudaErrorLaunchFailure : cudaSuccess;
}
}  // namespace emulator

const char* cudaGetErrorName(cudaError_t e) {
  return e == cudaSuccess ? "cudaSuccess" : "cudaError";
}
const char* cudaGetErrorString(cudaError_t) { return "see above"; }
cudaError_t cudaGetLastError() { return cudaSuccess; }
cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  *memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  emulator::poison(*memory, bytes);
  return cudaSuccess;
}
cudaError_t cudaFree(void* memory) {
  std::free(memory);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind,
                            cudaStream_t) {
  std::memmove(to, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  return cudaMemcpyAsync(to, from, bytes, kind, nullptr);
}
cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t bytes, cudaStream_t) {
  std::memset(memory, value, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemset(void* m, int v, std::size_t n) { return cudaMemsetAsync(m, v, n, nullptr); }
cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) { return cudaSuccess; }
cudaError_t cudaFuncGetName(const char**, const void*) { return cudaErrorInvalidValue; }
