#pragma once
// Matrix products by cuBLASLt, the only thing it is used for.
#include <memory>

#include "chimera/tensor/tensor.h"
#include "port.h"

namespace chimera::cuda {

// out (M, N) = or += a' (M, K) b' (K, N) + bias (N), all row-major; sums in fp32. Sizes >= 1.
struct MatmulCall {
  void* out;
  const void *a, *b, *bias;  // bias (of out's type) may be null
  DType in, out_type;        // storage of a and b, and of out
  bool transpose_a, transpose_b, add;
  Index M, N, K;
};

// Descriptors and algorithms are made when a shape is seen first and kept for the life of the
// object, with one workspace of 32 MiB. One stream, one thread at a time.
class Matmul {
 public:
  // time_candidates: the first call of a shape times what the heuristic proposes and keeps the
  // fastest; without it the first proposal is taken, the same on every run.
  Matmul(cudaStream_t stream, bool time_candidates);
  ~Matmul();
  Matmul(const Matmul&) = delete;
  Matmul& operator=(const Matmul&) = delete;
  void run(const MatmulCall& call);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// "cuBLASLt 13.1.0", for the manifest.
std::string matmul_library();

}  // namespace chimera::cuda
