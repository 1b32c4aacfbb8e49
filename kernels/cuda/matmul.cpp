// cuBLASLt reads matrices by columns; a row-major matrix is its own transpose read so. Hence out' =
// b'' a'' is computed: b is the library's first matrix, a its second, and out's rows its columns.
#include "matmul.h"

#include <cublasLt.h>

#include <algorithm>
#include <map>
#include <vector>

namespace chimera::cuda {
namespace {

constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;
constexpr int kMaxCandidates = 8;
constexpr int kTimedRuns = 5;

void check(cublasStatus_t status, const char* what) {
  ENSURE(status == CUBLAS_STATUS_SUCCESS, what, ": cuBLASLt says ", cublasLtGetStatusName(status),
         " (", static_cast<int>(status), ")");
}

template <class Handle, cublasStatus_t (*kDestroy)(Handle)>
struct Destroy {
  using pointer = Handle;
  void operator()(Handle handle) const { kDestroy(handle); }
};
template <class Handle, cublasStatus_t (*kDestroy)(Handle)>
using Owner = std::unique_ptr<void, Destroy<Handle, kDestroy>>;
using Descriptor = Owner<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using Layout = Owner<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
using Preference = Owner<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

cudaDataType_t library_type(DType type) {
  switch (type) {
    case DType::F32: return CUDA_R_32F;
    case DType::BF16: return CUDA_R_16BF;
    case DType::F16: return CUDA_R_16F;
    default: Fail("matmul: ", to_string(type), " is not a type of matrices");
  }
}

// The largest power of two up to 256 that divides the address: algorithms may rely on it.
std::uint32_t alignment_of(const void* pointer) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer) | 256;
  return static_cast<std::uint32_t>(address & (~address + 1));
}

// What makes two products alike.
struct Shape {
  DType in, out;
  Index M, N, K;
  bool transpose_a, transpose_b, add, bias;
  std::uint32_t align_a, align_b, align_out;
  auto operator<=>(const Shape&) const = default;
};

struct Product {
  Descriptor descriptor;
  Layout first, second, out;
  cublasLtMatmulAlgo_t algorithm{};
};

// A row-major (rows, columns) matrix as the library sees it.
Layout layout_of(DType type, Index rows, Index columns) {
  cublasLtMatrixLayout_t layout = nullptr;
  check(cublasLtMatrixLayoutCreate(&layout, library_type(type), static_cast<std::uint64_t>(columns),
                                   static_cast<std::uint64_t>(rows), columns),
        "describing a matrix");
  return Layout(layout);
}

template <class V>
void set(cublasLtMatmulDesc_t descriptor, cublasLtMatmulDescAttributes_t attribute, V value) {
  check(cublasLtMatmulDescSetAttribute(descriptor, attribute, &value, sizeof value),
        "describing a matrix product");
}
template <class V>
void set(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute,
         V value) {
  check(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value),
        "stating preferences for a matrix product");
}

Product describe(const Shape& s) {
  cublasLtMatmulDesc_t descriptor = nullptr;
  check(cublasLtMatmulDescCreate(&descriptor, CUBLAS_COMPUTE_32F, CUDA_R_32F),
        "describing a matrix product");
  Product p{Descriptor(descriptor),
            s.transpose_b ? layout_of(s.in, s.N, s.K) : layout_of(s.in, s.K, s.N),
            s.transpose_a ? layout_of(s.in, s.K, s.M) : layout_of(s.in, s.M, s.K),
            layout_of(s.out, s.M, s.N)};
  set(descriptor, CUBLASLT_MATMUL_DESC_TRANSA, s.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(descriptor, CUBLASLT_MATMUL_DESC_TRANSB, s.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
  if (s.bias) set(descriptor, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
  return p;
}

std::string describe_call(const MatmulCall& c) {
  return concat("matmul: ", to_string(c.out_type), " out (", c.M, ", ", c.N, ") from ",
                to_string(c.in), c.transpose_a ? " a'" : " a", " (", c.M, ", ", c.K, ")",
                c.transpose_b ? " b'" : " b", " (", c.K, ", ", c.N, ")");
}

}  // namespace

struct Matmul::State {
  cudaStream_t stream;
  bool time_candidates;
  cublasLtHandle_t library = nullptr;
  void* workspace = nullptr;
  std::map<Shape, Product> products;

  State(cudaStream_t s, bool time) : stream(s), time_candidates(time) {
    check(cublasLtCreate(&library), "starting cuBLASLt");
    const cudaError_t status = cudaMalloc(&workspace, kWorkspaceBytes);
    if (status == cudaSuccess) return;
    cublasLtDestroy(library);
    check_cuda(status, "allocating the 32 MiB workspace of matrix products");
  }
  ~State() {
    products.clear();
    cudaFree(workspace);
    cublasLtDestroy(library);
  }

  cublasStatus_t enqueue(const Product& p, const cublasLtMatmulAlgo_t& algorithm,
                         const MatmulCall& c, void* out) {
    if (c.bias != nullptr) set(p.descriptor.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, c.bias);
    const float alpha = 1, beta = c.add ? 1 : 0;
    return cublasLtMatmul(library, p.descriptor.get(), &alpha, c.b, p.first.get(), c.a,
                          p.second.get(), &beta, c.out, p.out.get(), out, p.out.get(), &algorithm,
                          workspace, kWorkspaceBytes, stream);
  }

  std::vector<cublasLtMatmulAlgo_t> candidates(const Product& p, const Shape& s,
                                               const MatmulCall& c) {
    cublasLtMatmulPreference_t made = nullptr;
    check(cublasLtMatmulPreferenceCreate(&made), "stating preferences for a matrix product");
    const Preference preference(made);
    set(made, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{kWorkspaceBytes});
    set(made, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, s.align_b);
    set(made, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, s.align_a);
    set(made, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, s.align_out);
    set(made, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, s.align_out);
    cublasLtMatmulHeuristicResult_t results[kMaxCandidates];
    int count = 0;
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
        library, p.descriptor.get(), p.first.get(), p.second.get(), p.out.get(), p.out.get(), made,
        time_candidates ? kMaxCandidates : 1, results, &count);
    ENSURE(status == CUBLAS_STATUS_SUCCESS && count > 0, describe_call(c),
           ": cuBLASLt knows no algorithm (", cublasLtGetStatusName(status), ")");
    std::vector<cublasLtMatmulAlgo_t> out;
    for (int i = 0; i < count; ++i)
      if (results[i].state == CUBLAS_STATUS_SUCCESS) out.push_back(results[i].algo);
    ENSURE(!out.empty(), describe_call(c), ": cuBLASLt's algorithms all fail");
    return out;
  }

  // The fastest of the candidates, written to memory of its own: out may hold what is added to.
  // Where there is no memory for that, the first.
  cublasLtMatmulAlgo_t fastest(const std::vector<cublasLtMatmulAlgo_t>& list, const Product& p,
                               const MatmulCall& c) {
    void* aside = nullptr;
    const Index bytes = checked_mul(checked_mul(c.M, c.N), size_of(c.out_type));
    if (cudaMalloc(&aside, static_cast<std::size_t>(bytes)) != cudaSuccess) {
      cudaGetLastError();
      return list.front();
    }
    cudaEvent_t start = nullptr, end = nullptr;
    check_cuda(cudaEventCreate(&start), "timing matrix products");
    check_cuda(cudaEventCreate(&end), "timing matrix products");
    std::size_t best = 0;
    float best_ms = 0;
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (enqueue(p, list[i], c, aside) != CUBLAS_STATUS_SUCCESS) continue;  // warms up
      check_cuda(cudaEventRecord(start, stream), "timing matrix products");
      for (int run = 0; run < kTimedRuns; ++run)
        check(enqueue(p, list[i], c, aside), "timing matrix products");
      check_cuda(cudaEventRecord(end, stream), "timing matrix products");
      check_cuda(cudaEventSynchronize(end), "timing matrix products");
      float ms = 0;
      check_cuda(cudaEventElapsedTime(&ms, start, end), "timing matrix products");
      if (best_ms == 0 || ms < best_ms) best = i, best_ms = ms;
    }
    check_cuda(cudaEventDestroy(start), "timing matrix products");
    check_cuda(cudaEventDestroy(end), "timing matrix products");
    check_cuda(cudaFree(aside), "timing matrix products");
    return list[best];
  }
};

Matmul::Matmul(cudaStream_t stream, bool time_candidates)
    : state_(std::make_unique<State>(stream, time_candidates)) {}
Matmul::~Matmul() = default;

void Matmul::run(const MatmulCall& c) {
  const Shape shape{c.in,
                    c.out_type,
                    c.M,
                    c.N,
                    c.K,
                    c.transpose_a,
                    c.transpose_b,
                    c.add,
                    c.bias != nullptr,
                    alignment_of(c.a),
                    alignment_of(c.b),
                    alignment_of(c.out)};
  auto found = state_->products.find(shape);
  if (found == state_->products.end()) {
    Product p = describe(shape);
    if (c.bias != nullptr) set(p.descriptor.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, c.bias);
    const auto list = state_->candidates(p, shape, c);
    p.algorithm = list.size() > 1 ? state_->fastest(list, p, c) : list.front();
    found = state_->products.emplace(shape, std::move(p)).first;
  }
  const cublasStatus_t status = state_->enqueue(found->second, found->second.algorithm, c, c.out);
  ENSURE(status == CUBLAS_STATUS_SUCCESS, describe_call(c), ": cuBLASLt says ",
         cublasLtGetStatusName(status));
}

std::string matmul_library() {
  const std::size_t v = cublasLtGetVersion();
  return concat("cuBLASLt ", v / 10000, ".", v / 100 % 100, ".", v % 100);
}

}  // namespace chimera::cuda
