#pragma once
#include <cstddef>

namespace chimera::schedule {

// An int (a worker, a stage, a micro-batch) as the index of a vector.
constexpr std::size_t at(int i) { return static_cast<std::size_t>(i); }

}  // namespace chimera::schedule
