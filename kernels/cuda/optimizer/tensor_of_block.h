#pragma once
// Which entry of a table a block works for.
#include "ops/kernels.h"

namespace chimera::cuda {

// The last of `count` entries that begins at or before `block`, where first(i) ascends and first(0)
// is 0. Entries without blocks begin where the next one does, and so are passed over.
template <class First>
__device__ int tensor_of_block(int count, Index block, const First& first) {
  int low = 0, high = count;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (first(middle) <= block)
      low = middle;
    else
      high = middle;
  }
  return low;
}

}  // namespace chimera::cuda
