#pragma once
// The arithmetic of a matrix product with its epilogue, on column-major matrices.
#include "cublasLt.h"

struct cublasLtMatmulDescOpaque_t {
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  cudaDataType_t scale = CUDA_R_32F;
  cublasOperation_t transpose_a = CUBLAS_OP_N, transpose_b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  cublasLtPointerMode_t pointer_mode = CUBLASLT_POINTER_MODE_HOST;
  void* bias = nullptr;
  void* aux = nullptr;
  std::int64_t aux_leading = 0;
  int bias_type = -1, aux_type = -1;  // -1: the type of D
};
struct cublasLtMatrixLayoutOpaque_t {
  cudaDataType_t type;
  std::uint64_t rows, columns;
  std::int64_t leading;
  cublasLtOrder_t order = CUBLASLT_ORDER_COL;
};

namespace emulator {

using MatmulDescriptor = cublasLtMatmulDescOpaque_t;
using MatrixLayout = cublasLtMatrixLayoutOpaque_t;

std::size_t element_bytes(cudaDataType_t type);

struct MatmulProblem {
  MatmulDescriptor descriptor;
  MatrixLayout a, b, c, d;
  float alpha = 1, beta = 0;
  const void *a_data = nullptr, *b_data = nullptr, *c_data = nullptr;
  void* d_data = nullptr;
  int split = 1;  // parts of k that are summed separately, then added in order

  std::size_t rows() const { return d.rows; }
  std::size_t columns() const { return d.columns; }
  std::size_t inner() const { return descriptor.transpose_a == CUBLAS_OP_N ? a.columns : a.rows; }
};

// Sums in fp32, k ascending within each part; everything is rounded once, when stored. C is not
// read where beta is 0.
void compute(const MatmulProblem& problem);

}  // namespace emulator
