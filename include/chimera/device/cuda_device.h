#pragma once
// A GPU as a Device. Without CUDA in the build another file answers these calls with an error that
// says so.
#include "chimera/device/device.h"

struct CUstream_st;  // what CUDA's cudaStream_t points to

namespace chimera {

// Marks are events. The streams of messages have a higher priority than Compute.
class CudaDevice : public Device {
 public:
  bool in_host_memory() const final { return false; }
  virtual int ordinal() const = 0;
  virtual CUstream_st* stream(Stream stream = Stream::Compute) const = 0;
};

// Device `ordinal` among those that the process sees (CUDA_VISIBLE_DEVICES). Errors name what is
// missing: no driver, too old a driver, no device, fewer devices, a build for other architectures.
std::unique_ptr<CudaDevice> make_cuda_device(int ordinal);

}  // namespace chimera
