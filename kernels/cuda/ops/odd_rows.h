#pragma once
// Products of 16-bit matrices whose rows do not begin at 16 bytes (a vocabulary of 50257). Tensor
// cores are fed fast from rows that do, so such a matrix may be worth a copy with longer rows; a
// timing says whether it is.
#include "matmul.h"
#include "device/scratch.h"
#include "autotune/timing.h"

namespace chimera::cuda {

// The most memory that copies of one product may take.
inline constexpr Index kMostRowCopies = Index{128} << 20;

class OddRows {
 public:
  OddRows(cudaStream_t stream, Matmul& matmul, TwoWays& ways)
      : stream_(stream), matmul_(&matmul), ways_(&ways) {}

  // Contract: Matmul::run.
  void run(const MatmulCall& call);

 private:
  bool run_on_copies(const MatmulCall& call);  // false, and nothing done, without memory for them

  cudaStream_t stream_;
  Matmul* matmul_;
  TwoWays* ways_;
  Scratch copies_;
};

}  // namespace chimera::cuda
