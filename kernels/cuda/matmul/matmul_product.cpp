#include "matmul_product.h"

#include <algorithm>
#include <cstring>

namespace chimera::cuda {
namespace {

constexpr const char* kDescribing = "describing a matrix product";
constexpr const char* kPreferring = "stating preferences for a matrix product";
constexpr int kMostCandidates = 16;

cudaDataType_t library_type(DType type) {
  switch (type) {
    case DType::F32: return CUDA_R_32F;
    case DType::BF16: return CUDA_R_16BF;
    case DType::F16: return CUDA_R_16F;
    default: Fail("matmul: ", to_string(type), " is not a type of matrices");
  }
}

// The largest power of two up to 64 that divides the address: algorithms may rely on it. More than
// 64, which every region of an arena has, would tell equal layers apart by where they stand.
std::uint32_t alignment_of(const void* pointer) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer) | 64;
  return static_cast<std::uint32_t>(address & (~address + 1));
}

// A row-major (rows, columns) matrix as the library sees it; row: numbers from row to row.
MatrixLayout layout_of(DType type, Index rows, Index columns, Index row) {
  cublasLtMatrixLayout_t layout = nullptr;
  check(cublasLtMatrixLayoutCreate(&layout, library_type(type), static_cast<std::uint64_t>(columns),
                                   static_cast<std::uint64_t>(rows), row),
        "describing a matrix");
  return MatrixLayout(layout);
}

template <class V>
void set(cublasLtMatmulDesc_t descriptor, cublasLtMatmulDescAttributes_t attribute, V value) {
  check(cublasLtMatmulDescSetAttribute(descriptor, attribute, &value, sizeof value), kDescribing);
}
template <class V>
void set(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute,
         V value) {
  check(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value),
        kPreferring);
}

// b is the library's A, so that sums over its rows are BGRADA.
cublasLtEpilogue_t library_epilogue(const ProductShape& s) {
  switch (s.epilogue) {
    case Epilogue::None: return s.bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    case Epilogue::Gelu:
      return s.bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
    case Epilogue::GeluGradient: return CUBLASLT_EPILOGUE_DGELU;
    case Epilogue::BiasGradient: return CUBLASLT_EPILOGUE_BGRADA;
  }
  Fail("matmul: no such epilogue");
}

bool has_aux(Epilogue e) { return e == Epilogue::Gelu || e == Epilogue::GeluGradient; }

const char* name(Epilogue e) {
  switch (e) {
    case Epilogue::None: return "";
    case Epilogue::Gelu: return ", gelu";
    case Epilogue::GeluGradient: return ", gelu gradient";
    case Epilogue::BiasGradient: return ", bias gradient";
  }
  return "?";
}

int digit(char c) {
  return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

}  // namespace

void check(cublasStatus_t status, const char* what) {
  ENSURE(status == CUBLAS_STATUS_SUCCESS, what, ": cuBLASLt says ", cublasLtGetStatusName(status),
         " (", static_cast<int>(status), ")");
}

ProductShape shape_of(const MatmulCall& c) {
  return {c.in,
          c.out_type,
          c.M,
          c.N,
          c.K,
          c.transpose_a,
          c.transpose_b,
          c.add,
          c.bias != nullptr,
          c.epilogue,
          alignment_of(c.a),
          alignment_of(c.b),
          alignment_of(c.out),
          c.row_out > 0 ? c.row_out : c.N,
          c.row_a > 0     ? c.row_a
          : c.transpose_a ? c.M
                          : c.K,
          c.row_b > 0     ? c.row_b
          : c.transpose_b ? c.K
                          : c.N};
}

std::string to_string(const ProductShape& s, bool tf32) {
  const bool longer = s.row_out != s.N || s.row_a != (s.transpose_a ? s.M : s.K) ||
                      s.row_b != (s.transpose_b ? s.K : s.N);
  return concat("matmul ", to_string(s.in), s.transpose_a ? " a' (" : " a (", s.M, ", ", s.K,
                s.transpose_b ? ") b' (" : ") b (", s.K, ", ", s.N, s.add ? ") added to " : ") to ",
                to_string(s.out), s.bias ? " + bias" : "", name(s.epilogue), ", aligned to ",
                s.align_a, " ", s.align_b, " ", s.align_out,
                longer ? concat(", rows of ", s.row_a, " ", s.row_b, " ", s.row_out) : "",
                tf32 ? ", tf32" : "");
}

Product make_product(const ProductShape& s, bool tf32) {
  cublasLtMatmulDesc_t descriptor = nullptr;
  const bool rounded = tf32 && s.in == DType::F32;
  check(cublasLtMatmulDescCreate(
            &descriptor, rounded ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F),
        kDescribing);
  Product p{Descriptor(descriptor),
            s.transpose_b ? layout_of(s.in, s.N, s.K, s.row_b) : layout_of(s.in, s.K, s.N, s.row_b),
            s.transpose_a ? layout_of(s.in, s.K, s.M, s.row_a) : layout_of(s.in, s.M, s.K, s.row_a),
            layout_of(s.out, s.M, s.N, s.row_out), std::nullopt};
  set(descriptor, CUBLASLT_MATMUL_DESC_TRANSA, s.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(descriptor, CUBLASLT_MATMUL_DESC_TRANSB, s.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(descriptor, CUBLASLT_MATMUL_DESC_EPILOGUE, library_epilogue(s));
  if (s.bias && s.in != s.out)
    set(descriptor, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, library_type(s.in));
  if (has_aux(s.epilogue)) {
    set(descriptor, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, std::int64_t{s.N});
    set(descriptor, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, library_type(s.out));
  }
  return p;
}

void set_pointers(const Product& p, const MatmulCall& c) {
  cublasLtMatmulDesc_t descriptor = p.descriptor.get();
  const void* bias = c.epilogue == Epilogue::BiasGradient ? c.bias_gradient : c.bias;
  if (bias != nullptr) set(descriptor, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
  if (c.aux != nullptr) set(descriptor, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, c.aux);
}

std::vector<cublasLtMatmulAlgo_t> candidates(cublasLtHandle_t library, const Product& p,
                                             const ProductShape& s, int most) {
  cublasLtMatmulPreference_t made = nullptr;
  check(cublasLtMatmulPreferenceCreate(&made), kPreferring);
  const Preference preference(made);
  set(made, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{kMatmulWorkspace});
  // Parts of K are not added up in 16 bits, nor in out itself.
  set(made, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  set(made, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, s.align_b);
  set(made, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, s.align_a);
  set(made, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, s.align_out);
  set(made, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, s.align_out);
  cublasLtMatmulHeuristicResult_t results[kMostCandidates];
  int count = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      library, p.descriptor.get(), p.first.get(), p.second.get(), p.out.get(), p.out.get(), made,
      std::min(most, kMostCandidates), results, &count);
  std::vector<cublasLtMatmulAlgo_t> out;
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE) return out;
  check(status, "asking for algorithms of a matrix product");
  for (int i = 0; i < count; ++i)
    if (results[i].state == CUBLAS_STATUS_SUCCESS) out.push_back(results[i].algo);
  return out;
}

std::string to_text(const cublasLtMatmulAlgo_t& algorithm) {
  constexpr char kDigits[] = "0123456789abcdef";
  unsigned char bytes[sizeof algorithm];
  std::memcpy(bytes, &algorithm, sizeof bytes);
  std::string text;
  for (const unsigned char byte : bytes) {
    text += kDigits[byte / 16];
    text += kDigits[byte % 16];
  }
  return text;
}

std::optional<cublasLtMatmulAlgo_t> algorithm_of(const std::string& text, cublasLtHandle_t library,
                                                 const Product& p) {
  unsigned char bytes[sizeof(cublasLtMatmulAlgo_t)];
  if (text.size() != 2 * sizeof bytes) return std::nullopt;
  for (std::size_t i = 0; i < sizeof bytes; ++i) {
    const int high = digit(text[2 * i]), low = digit(text[2 * i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    bytes[i] = static_cast<unsigned char>(16 * high + low);
  }
  cublasLtMatmulAlgo_t algorithm;
  std::memcpy(&algorithm, bytes, sizeof bytes);
  cublasLtMatmulHeuristicResult_t result{};
  const cublasStatus_t status =
      cublasLtMatmulAlgoCheck(library, p.descriptor.get(), p.first.get(), p.second.get(),
                              p.out.get(), p.out.get(), &algorithm, &result);
  const bool good = status == CUBLAS_STATUS_SUCCESS && result.state == CUBLAS_STATUS_SUCCESS &&
                    result.workspaceSize <= kMatmulWorkspace;
  return good ? std::optional(algorithm) : std::nullopt;
}

}  // namespace chimera::cuda
