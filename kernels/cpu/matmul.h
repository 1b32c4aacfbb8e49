#pragma once
// Matrix products by oneDNN, the only thing it is used for.
#include <memory>

#include "chimera/ops/ops.h"

namespace chimera::cpu {

// Primitives are made once per shape and team size and kept for the life of the object, with one
// scratch buffer that only grows: a step that repeats its shapes allocates nothing here. One thread
// at a time (each worker has its own Ops).
class MatmulCache {
 public:
  MatmulCache();
  ~MatmulCache();
  MatmulCache(const MatmulCache&) = delete;
  // out (M, N) = or += a' b' + bias; bias may be null. Sizes are checked by the caller, all >= 1.
  void run(float* out, const float* a, Transpose transpose_a, const float* b, Transpose transpose_b,
           Write mode, const float* bias, Index M, Index N, Index K);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace chimera::cpu
