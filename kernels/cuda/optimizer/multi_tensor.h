#pragma once
// Ops over lists of tensors, whose tables the kernels read in device memory.
#include <vector>

#include "chimera/device/cuda_device.h"
#include "chimera/ops/ops.h"
#include "device/scratch.h"
#include "device/uploads.h"
#include "ops/kernels.h"

namespace chimera::cuda {

// Tables and results are kept on the host, so that repeated steps allocate nothing.
class MultiTensor {
 public:
  MultiTensor(CudaDevice& device, Scratch& scratch)
      : device_(&device), stream_(device.stream()), scratch_(&scratch), uploads_(stream_) {}

  void adamw(std::span<const AdamWTensor> tensors, const AdamWStep& step);
  // Waits for the stream. Brings `found` (device memory) to the host in the same copy.
  void sum_squares(std::span<double> sums, std::span<const Tensor> tensors,
                   std::span<BadId> found_on_host, const BadId* found);

 private:
  CudaDevice* device_;
  cudaStream_t stream_;
  Scratch* scratch_;
  Uploads uploads_;
  std::vector<AdamWEntry> updated_;
  std::vector<SumEntry> summed_;
  std::vector<double> results_;
};

}  // namespace chimera::cuda
