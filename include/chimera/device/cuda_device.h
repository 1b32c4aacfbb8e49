#pragma once
// A GPU as a Device. Without CUDA in the build another file answers these calls with an error that
// says so.
#include "chimera/device/device.h"

struct CUstream_st;  // what CUDA's cudaStream_t points to

namespace chimera {

// Everything goes through one stream, in order: zero and copy_in return before it is done (the
// host's memory may be reused at once), copy_out when the numbers have come. May be called from any
// thread, one at a time.
class CudaDevice : public Device {
 public:
  virtual int ordinal() const = 0;
  virtual CUstream_st* stream() const = 0;
  // Waits for all that was enqueued; throws what went wrong on the device since.
  virtual void synchronize() = 0;
};

// Device `ordinal` among those that the process sees (CUDA_VISIBLE_DEVICES). Errors name what is
// missing: no driver, too old a driver, no device, fewer devices, a build for other architectures.
std::unique_ptr<CudaDevice> make_cuda_device(int ordinal);

}  // namespace chimera
