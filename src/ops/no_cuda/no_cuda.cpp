// Linked where the GPU backend is not built (scripts/cmake/ChimeraCuda.cmake).
#include "chimera/device/cuda_info.h"
#include "chimera/ops/cuda_ops.h"

namespace chimera {
namespace {

[[noreturn]] void fail() { Fail(cuda_problem()); }

}  // namespace

std::string cuda_problem() {
  return "this program was built without CUDA; install CUDA 12 or newer and configure with "
         "-DCHIMERA_CUDA=ON, or set device.kind to cpu";
}
std::vector<CudaDeviceInfo> cuda_devices() { return {}; }
int cuda_device_count() { return 0; }
CudaDeviceInfo cuda_device(int) { fail(); }
std::vector<CudaLibrary> cuda_libraries() { return {}; }

std::unique_ptr<CudaDevice> make_cuda_device(int) { fail(); }
std::unique_ptr<CudaOps> make_cuda_ops(CudaDevice&, const CudaOpsSettings&) { fail(); }
std::string cuda_matmul_library() { return "none"; }

}  // namespace chimera
