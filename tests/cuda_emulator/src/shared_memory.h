#pragma once
// Static shared memory: the section that __shared__ variables are put into.
#include <cstddef>

namespace emulator {

constexpr std::size_t kDynamicAlignment = 128;

void poison_static_shared();
// Bytes of the section that no longer hold poison.
std::size_t static_shared_written();

}  // namespace emulator
