#pragma once
#include <string>
#include <vector>

#include "chimera/device/cuda_info.h"

namespace chimera::cli {

// Lines for `chimera info`: libraries; a line per GPU, or one that says why there is none and what
// to do; whom each reaches without the host, where there are several.
std::string gpu_report(const std::vector<CudaLibrary>& libraries, const std::string& problem,
                       const std::vector<CudaDeviceInfo>& devices);
// Of this machine.
std::string gpu_report();

}  // namespace chimera::cli
