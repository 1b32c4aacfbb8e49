#pragma once
// What this program finds of CUDA on the machine, for `chimera info` and for messages. Nothing here
// throws for what is missing: that is the answer.
#include <string>
#include <vector>

#include "chimera/base/types.h"

namespace chimera {

struct CudaDeviceInfo {
  int ordinal = 0;        // among those that the process sees (CUDA_VISIBLE_DEVICES)
  std::string name, bus;  // "NVIDIA H200", "0000:1b:00.0"
  int capability = 0;     // 90: 9.0
  int multiprocessors = 0;
  Index memory_bytes = 0, free_bytes = 0;
  std::vector<int> peers;  // the devices whose memory it reaches without the host
  std::string problem;     // one line: why this program does not run on it; empty: it does
  bool built_for = true;   // false: the problem is that the program has no code for its capability
};

// One line: why this program can use no GPU here, and the way out; empty: there is one.
std::string cuda_problem();
// The GPUs that the process sees, also those this program was not built for; none where there is a
// problem. Takes hold of each, as any program that computes on it does: that costs memory there
// until the process ends.
std::vector<CudaDeviceInfo> cuda_devices();
// How many they are, and one of them, without touching the others.
int cuda_device_count();
CudaDeviceInfo cuda_device(int ordinal);

// What the backend stands on: driver and runtime (13.0), cuBLASLt, cuDNN, NCCL; "none", or why not,
// where one is missing.
struct CudaLibrary {
  std::string name, version;
};
std::vector<CudaLibrary> cuda_libraries();

}  // namespace chimera
