#pragma once
// Matrix products by cuBLASLt, the only thing it is used for.
#include <memory>
#include <vector>

#include "autotune/autotune_cache.h"
#include "chimera/tensor/tensor.h"
#include "device/port.h"

namespace chimera::cuda {

// What is done with the sums on the way to memory.
enum class Epilogue {
  None,
  Gelu,          // aux = the sums (with the bias), out = GELU (tanh) of them
  GeluGradient,  // out = the sums * gelu'(aux)
  BiasGradient   // bias_gradient = column sums of b
};

// out (M, N) = or += a' (M, K) b' (K, N) + bias (N), all row-major; sums in fp32. Sizes >= 1.
// Nothing that is written overlaps anything else.
struct MatmulCall {
  void* out;
  const void *a, *b, *bias;  // bias (of in's type) may be null
  DType in, out_type;        // storage of a and b, and of out: the same or F32
  bool transpose_a, transpose_b, add;
  Index M, N, K;
  Epilogue epilogue = Epilogue::None;
  void* aux = nullptr;             // (M, N) of out's type: Gelu writes it, GeluGradient reads it
  float* bias_gradient = nullptr;  // (N), overwritten; out is F32 then
  // Numbers from row to row as they lie in memory; 0: no more than a row has.
  Index row_out = 0, row_a = 0, row_b = 0;
};

struct MatmulSettings {
  // The first call of a shape times what the heuristic proposes and keeps the fastest; without it
  // the first proposal is taken, the same on every run.
  bool time_candidates = false;
  bool tf32 = false;  // fp32 operands are rounded to TF32
};

// Descriptors and algorithms are made when a shape is seen first and kept for the life of the
// object, with one workspace of 32 MiB. One stream, one thread at a time. Sums of parts of K are
// added in fp32 whatever out's type is.
class Matmul {
 public:
  Matmul(cudaStream_t stream, const MatmulSettings& settings, AutotuneCache& cache);
  ~Matmul();
  Matmul(const Matmul&) = delete;
  Matmul& operator=(const Matmul&) = delete;
  void run(const MatmulCall& call);
  // run() if the library can; false, and nothing done, where it cannot: an epilogue that it has not
  // for these types and alignments (aux: 16 bytes, N a multiple of 8).
  bool try_run(const MatmulCall& call);
  // "products: 41 shapes, 38 timed, 3 from the cache"
  std::string describe() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// "cuBLASLt 13.1.0", for the manifest.
std::string matmul_library();

}  // namespace chimera::cuda
