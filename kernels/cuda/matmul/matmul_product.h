#pragma once
// A matrix product as cuBLASLt's descriptors. For matmul.cpp alone.
// cuBLASLt reads matrices by columns; a row-major matrix is its own transpose read so. Hence out' =
// b'' a'' is computed: b is the library's first matrix, a its second, and out's rows its columns.
#include <cublasLt.h>

#include <optional>

#include "matmul.h"

namespace chimera::cuda {

inline constexpr std::size_t kMatmulWorkspace = std::size_t{32} << 20;

void check(cublasStatus_t status, const char* what);

template <class Handle, cublasStatus_t (*kDestroy)(Handle)>
struct Destroy {
  using pointer = Handle;
  void operator()(Handle handle) const { kDestroy(handle); }
};
template <class Handle, cublasStatus_t (*kDestroy)(Handle)>
using Owner = std::unique_ptr<void, Destroy<Handle, kDestroy>>;
using Descriptor = Owner<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using MatrixLayout = Owner<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
using Preference = Owner<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

// What makes two products alike.
struct ProductShape {
  DType in, out;
  Index M, N, K;
  bool transpose_a, transpose_b, add, bias;
  Epilogue epilogue;
  std::uint32_t align_a, align_b, align_out;
  Index row_out, row_a, row_b;
  auto operator<=>(const ProductShape&) const = default;
};
ProductShape shape_of(const MatmulCall& call);
// "matmul BF16 a (8192, 768) b' (768, 3072) to BF16 + bias, gelu, aligned to 64 64 64, tf32": the
// key of a choice.
std::string to_string(const ProductShape& shape, bool tf32);

struct Product {
  Descriptor descriptor;
  MatrixLayout first, second, out;
  std::optional<cublasLtMatmulAlgo_t> algorithm;  // none: the library has none
};
// Without an algorithm.
Product make_product(const ProductShape& shape, bool tf32);
// The call's bias, aux and gradient: before candidates are asked for, and before each run.
void set_pointers(const Product& product, const MatmulCall& call);

// What the heuristic proposes, best first, at most `most`; empty where it knows nothing.
std::vector<cublasLtMatmulAlgo_t> candidates(cublasLtHandle_t library, const Product& product,
                                             const ProductShape& shape, int most);

// An algorithm as hexadecimal text, and back: nullopt when the text is none or the library does not
// take it for this product and workspace.
std::string to_text(const cublasLtMatmulAlgo_t& algorithm);
std::optional<cublasLtMatmulAlgo_t> algorithm_of(const std::string& text, cublasLtHandle_t library,
                                                 const Product& product);

}  // namespace chimera::cuda
