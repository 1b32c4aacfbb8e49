#pragma once
// Rows sorted by token, equal tokens in row order.
#include "kernels.h"

namespace chimera::cuda {

// The token of row r; one outside the vocabulary is noted in *bad and read as 0.
__device__ inline Index token_at(const std::int32_t* tokens, Index r, Index V, BadId* bad) {
  const std::int32_t token = tokens[r];
  if (token >= 0 && token < V) return token;
  atomicMin(bad, static_cast<BadId>(r) << 32 | static_cast<std::uint32_t>(token));
  return 0;
}
// The same where the token has been noted.
__device__ inline std::int32_t token_again(const std::int32_t* tokens, Index r, Index V) {
  const std::int32_t token = tokens[r];
  return token >= 0 && token < V ? token : 0;
}

// The R rows in that order, in scratch memory: radix sort by digits of 8 bits, as many as V needs.
// Ids outside [0, V) are noted in *bad and sorted as 0.
const std::int32_t* sort_rows(const std::int32_t* tokens, BadId* bad, Index R, Index V,
                              Scratch& scratch, cudaStream_t stream);

}  // namespace chimera::cuda
