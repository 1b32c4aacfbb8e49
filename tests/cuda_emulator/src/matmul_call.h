#pragma once
// How calls of cuBLASLt are carried out and refused.
#include "machine.h"
#include "matmul.h"

struct cublasLtContext {
  int device;
};
struct cublasLtMatmulPreferenceOpaque_t {
  std::uint64_t workspace = 0;
  std::uint32_t alignment[4] = {256, 256, 256, 256};  // of A, B, C, D
  std::uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_MASK;
};

namespace emulator {

[[noreturn]] inline void invalid(const std::string& text) {
  refuse(static_cast<cudaError_t>(CUBLAS_STATUS_INVALID_VALUE), "cuBLASLt: ", text);
}
[[noreturn]] inline void unsupported(const std::string& text) {
  refuse(static_cast<cudaError_t>(CUBLAS_STATUS_NOT_SUPPORTED), "cuBLASLt: ", text);
}

// api_call with cuBLAS's codes.
template <class Body>
cublasStatus_t library_call(const Body& body) {
  cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
  const cudaError_t error = api_call([&](Machine& m, Machine::Lock&) {
    try {
      body(m);
    } catch (const Refusal& refusal) {
      m.report(refusal.text);
      status = static_cast<cublasStatus_t>(refusal.error);
    }
    return cudaSuccess;
  });
  return error == cudaSuccess ? status : CUBLAS_STATUS_EXECUTION_FAILED;
}

}  // namespace emulator
