// Linked where the GPU backend is not built (scripts/cmake/ChimeraCuda.cmake).
#include "chimera/comm/device_transport.h"

namespace chimera {

bool nccl_built() { return false; }
std::string nccl_library() { return "none"; }

std::unique_ptr<DeviceCommunicator> make_device_communicator(DeviceTransport, Communicator&,
                                                             CudaDevice&,
                                                             const DeviceTransportSettings&) {
  Fail(
      "this program was built without CUDA; install CUDA 12 or newer and configure with "
      "-DCHIMERA_CUDA=ON, or set device.kind to cpu");
}

}  // namespace chimera
