#pragma once
// Activation recomputation: what the backward finds in the activation buffer, and what is computed
// again.
#include <optional>

#include "chimera/nn/pass.h"

namespace chimera::nn {

// Dropout masks and therefore results are the same bits in all three.
enum class Recompute {
  None,
  Selective,  // norms and GELU, which memory traffic bounds, are computed again where needed
  Full        // the activation buffer is empty between Forward and Stage::recompute
};

// An output that the activation buffer keeps, or scratch where it is computed again (kept:
// nothing).
inline Tensor kept_or_scratch(const Pass& pass, const std::optional<Region>& kept,
                              const Region& scratch) {
  return kept ? pass.activations.rows(*kept) : pass.scratch().rows(scratch);
}

}  // namespace chimera::nn
