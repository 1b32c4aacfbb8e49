// Linked where there is CUDA, but no NCCL (scripts/cmake/ChimeraCuda.cmake).
#include "comm/transports.h"

namespace chimera {

bool nccl_built() { return false; }
std::string nccl_library() { return "none"; }

std::unique_ptr<DeviceCommunicator> make_nccl_communicator(Communicator&, CudaDevice&,
                                                           const DeviceTransportSettings&) {
  Fail(
      "this program was built without NCCL; install libnccl-dev (or the wheel nvidia-nccl-cu13 and "
      "configure with -DCHIMERA_NCCL_ROOT=its folder), or set parallel.transport to mpi");
}

}  // namespace chimera
