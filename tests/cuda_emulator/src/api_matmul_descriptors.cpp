// cuBLASLt: handles, descriptors and their attributes.
#include <cstring>

#include "matmul_call.h"

using namespace emulator;
using chimera::concat;

namespace {

template <class V>
void read(V& to, const void* value, std::size_t bytes) {
  if (value == nullptr || bytes != sizeof to)
    invalid(concat("an attribute of ", bytes, " bytes that has ", sizeof to));
  std::memcpy(static_cast<void*>(&to), value, bytes);
}

}  // namespace

const char* cublasLtGetStatusName(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS: return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED: return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_ALLOC_FAILED: return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE: return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_ARCH_MISMATCH: return "CUBLAS_STATUS_ARCH_MISMATCH";
    case CUBLAS_STATUS_MAPPING_ERROR: return "CUBLAS_STATUS_MAPPING_ERROR";
    case CUBLAS_STATUS_EXECUTION_FAILED: return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_INTERNAL_ERROR: return "CUBLAS_STATUS_INTERNAL_ERROR";
    case CUBLAS_STATUS_NOT_SUPPORTED: return "CUBLAS_STATUS_NOT_SUPPORTED";
  }
  return "CUBLAS_STATUS_?";
}
const char* cublasLtGetStatusString(cublasStatus_t status) { return cublasLtGetStatusName(status); }
std::size_t cublasLtGetVersion() { return 130000; }
std::size_t cublasLtGetCudartVersion() { return CUDART_VERSION; }

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = new cublasLtContext{current_device()};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType_t type,
                                          std::uint64_t rows, std::uint64_t columns,
                                          std::int64_t leading) {
  *layout = new MatrixLayout{type, rows, columns, leading};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void* value, std::size_t bytes) {
  return library_call([&](Machine&) {
    switch (attribute) {
      case CUBLASLT_MATRIX_LAYOUT_TYPE: return read(layout->type, value, bytes);
      case CUBLASLT_MATRIX_LAYOUT_ORDER: return read(layout->order, value, bytes);
      case CUBLASLT_MATRIX_LAYOUT_ROWS: return read(layout->rows, value, bytes);
      case CUBLASLT_MATRIX_LAYOUT_COLS: return read(layout->columns, value, bytes);
      case CUBLASLT_MATRIX_LAYOUT_LD: return read(layout->leading, value, bytes);
    }
    invalid("an unknown attribute of a matrix");
  });
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* descriptor,
                                        cublasComputeType_t compute, cudaDataType_t scale) {
  *descriptor = new MatmulDescriptor{compute, scale};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t descriptor) {
  delete descriptor;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t d,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, std::size_t bytes) {
  return library_call([&](Machine&) {
    switch (attribute) {
      case CUBLASLT_MATMUL_DESC_COMPUTE_TYPE: return read(d->compute, value, bytes);
      case CUBLASLT_MATMUL_DESC_SCALE_TYPE: return read(d->scale, value, bytes);
      case CUBLASLT_MATMUL_DESC_POINTER_MODE: return read(d->pointer_mode, value, bytes);
      case CUBLASLT_MATMUL_DESC_TRANSA: return read(d->transpose_a, value, bytes);
      case CUBLASLT_MATMUL_DESC_TRANSB: return read(d->transpose_b, value, bytes);
      case CUBLASLT_MATMUL_DESC_EPILOGUE: return read(d->epilogue, value, bytes);
      case CUBLASLT_MATMUL_DESC_BIAS_POINTER: return read(d->bias, value, bytes);
      case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER: return read(d->aux, value, bytes);
      case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD: return read(d->aux_leading, value, bytes);
      case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE: return read(d->aux_type, value, bytes);
      case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE: return read(d->bias_type, value, bytes);
    }
    invalid("an unknown attribute of a product");
  });
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = new cublasLtMatmulPreferenceOpaque_t;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete preference;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t p,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, std::size_t bytes) {
  return library_call([&](Machine&) {
    std::uint32_t ignored = 0;
    switch (attribute) {
      case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES: return read(p->workspace, value, bytes);
      case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES: return read(p->alignment[0], value, bytes);
      case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES: return read(p->alignment[1], value, bytes);
      case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES: return read(p->alignment[2], value, bytes);
      case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES: return read(p->alignment[3], value, bytes);
      case CUBLASLT_MATMUL_PREF_SEARCH_MODE: return read(ignored, value, bytes);
      case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK: return read(p->reductions, value, bytes);
    }
    invalid("an unknown attribute of a preference");
  });
}
