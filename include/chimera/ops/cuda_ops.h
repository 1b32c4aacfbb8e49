#pragma once
// The ops on a GPU. Without CUDA in the build another file answers with an error that says so.
#include "chimera/device/cuda_device.h"
#include "chimera/ops/ops.h"

namespace chimera {

struct CudaOpsSettings {
  // The first product of a shape times what cuBLASLt proposes and keeps the fastest. Which one that
  // is may differ from run to run, and with it the last bits.
  bool time_matmul = false;
};

// Tensors are of `device`, whose stream carries the work: ops return when it is enqueued, in order,
// and only sum_squares waits. Results are the same bits on every run on a kind of device. What
// kernels find wrong (an id outside the vocabulary; it is read as 0) is thrown by the next
// sum_squares or check().
class CudaOps : public Ops {
 public:
  // Waits for the device's stream and throws what its kernels found.
  virtual void check() = 0;
};

// `device` must outlive the ops.
std::unique_ptr<CudaOps> make_cuda_ops(CudaDevice& device, const CudaOpsSettings& settings = {});
// The library behind its matmul, for the manifest: "cuBLASLt 13.1.0".
std::string cuda_matmul_library();

}  // namespace chimera
