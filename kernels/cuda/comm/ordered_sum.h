#pragma once
#include <span>

#include "device/port.h"

namespace chimera::cuda {

// result[i] = ((sources[0][i] + sources[1][i]) + sources[2][i]) + ..., i < n. `result` may be one
// of the sources; `spare`, one of the first 64 or null, may lose its numbers where there are more.
void ordered_sum(float* result, std::span<const float* const> sources, float* spare, std::int64_t n,
                 cudaStream_t stream);

}  // namespace chimera::cuda
