#pragma once
// Products of 16-bit matrices whose rows do not begin at 16 bytes (a vocabulary of 50257). Tensor
// cores are fed fast from rows that do, so such a matrix may be worth a copy with longer rows; a
// timing says whether it is.
#include "autotune/autotuner.h"
#include "device/scratch.h"
#include "matmul.h"

namespace chimera::cuda {

// The most memory that copies of one product may take.
inline constexpr Index kMostPaddedBytes = Index{128} << 20;

class PaddedMatmul {
 public:
  PaddedMatmul(cudaStream_t stream, Matmul& matmul, Autotuner& autotuner)
      : stream_(stream), matmul_(&matmul), autotuner_(&autotuner) {}

  // Contract: Matmul::run.
  void run(const MatmulCall& call);

 private:
  bool run_padded(const MatmulCall& call);  // false, and nothing done, without memory for them

  cudaStream_t stream_;
  Matmul* matmul_;
  Autotuner* autotuner_;
  Scratch copies_;
};

}  // namespace chimera::cuda
