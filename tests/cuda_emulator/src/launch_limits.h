#pragma once
#include <cstddef>

namespace emulator {

// CUDA C++ Programming Guide 13.0, "Technical Specifications per Compute Capability".
struct DeviceLimits {
  int threads = 1024;  // of a block
  std::size_t shared_per_block = 48 << 10, shared_opt_in = 0;
  int multiprocessors = 4;  // few: kernels that fill the machine stay cheap to emulate
};
DeviceLimits device_limits(int capability);

// The number of threads in the kernel's __launch_bounds__, rounded up to warps; 0: none given, or
// not known with this compiler.
int launch_bound(const void* kernel);

}  // namespace emulator
