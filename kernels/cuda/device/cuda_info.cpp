#include "chimera/device/cuda_info.h"

#include "attention/cudnn_attention.h"
#include "chimera/comm/device_transport.h"
#include "matmul/matmul.h"
#include "ops/kernels.h"

namespace chimera {
namespace {

std::string version_text(int version) {
  return version == 0 ? "none" : concat(version / 1000, ".", version % 1000 / 10);
}

int driver_version() {
  int version = 0;
  return cudaDriverGetVersion(&version) == cudaSuccess ? version : 0;
}
int runtime_version() {
  int version = 0;
  return cudaRuntimeGetVersion(&version) == cudaSuccess ? version : 0;
}

std::string words(cudaError_t status) {
  return concat(cudaGetErrorName(status), ", ", cudaGetErrorString(status));
}

std::string driver_problem() {
  const int driver = driver_version();
  if (driver == 0) return "no NVIDIA driver is loaded; install one, or set device.kind to cpu";
  return concat("the NVIDIA driver knows CUDA ", version_text(driver), ", this program needs ",
                version_text(runtime_version()),
                "; update the driver, build with an older CUDA, or set device.kind to cpu");
}

// Of the current device.
void look_for_problems(CudaDeviceInfo& d) {
  const cudaError_t status = cuda::probe_kernels();
  if (status == cudaSuccess) return;
  cudaGetLastError();
  d.built_for =
      status != cudaErrorNoKernelImageForDevice && status != cudaErrorInvalidDeviceFunction;
  d.problem =
      d.built_for
          ? concat("cannot be used: ", words(status))
          : concat("this program has no code for compute capability ", d.capability / 10, ".",
                   d.capability % 10,
                   "; configure with -DCMAKE_CUDA_ARCHITECTURES=native (8.0 or newer), or set "
                   "device.kind to cpu");
}

CudaDeviceInfo describe(int ordinal) {
  CudaDeviceInfo d;
  d.ordinal = ordinal;
  cudaDeviceProp properties{};
  cudaError_t status = cudaGetDeviceProperties(&properties, ordinal);
  if (status == cudaSuccess) status = cudaSetDevice(ordinal);
  if (status != cudaSuccess) {
    cudaGetLastError();
    d.problem = concat("cannot be used: ", words(status));
    return d;
  }
  d.name = properties.name;
  d.capability = 10 * properties.major + properties.minor;
  d.multiprocessors = properties.multiProcessorCount;
  d.memory_bytes = static_cast<Index>(properties.totalGlobalMem);
  char bus[32] = "";
  if (cudaDeviceGetPCIBusId(bus, sizeof bus, ordinal) == cudaSuccess) d.bus = bus;
  look_for_problems(d);
  std::size_t free_bytes = 0, total = 0;
  if (d.problem.empty() && cudaMemGetInfo(&free_bytes, &total) == cudaSuccess)
    d.free_bytes = static_cast<Index>(free_bytes);
  for (int peer = 0; peer < cuda_device_count(); ++peer) {
    int can = 0;
    if (peer != ordinal && cudaDeviceCanAccessPeer(&can, ordinal, peer) == cudaSuccess && can != 0)
      d.peers.push_back(peer);
  }
  return d;
}

}  // namespace

std::string cuda_problem() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaSuccess && count > 0) return "";
  cudaGetLastError();
  if (status == cudaErrorInsufficientDriver) return driver_problem();
  if (status == cudaErrorNoDevice || status == cudaSuccess)
    return "there is no GPU (or CUDA_VISIBLE_DEVICES hides it); set device.kind to cpu";
  return concat("looking for GPUs: ", words(status), "; see whether nvidia-smi shows them");
}

int cuda_device_count() {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
  cudaGetLastError();
  return 0;
}

CudaDeviceInfo cuda_device(int ordinal) {
  ENSURE(ordinal >= 0 && ordinal < cuda_device_count(), "there is no GPU ", ordinal, " among ",
         cuda_device_count());
  int before = 0;
  check_cuda(cudaGetDevice(&before), "asking for the current GPU");
  CudaDeviceInfo device = describe(ordinal);
  if (before != ordinal) cudaSetDevice(before);
  return device;
}

std::vector<CudaDeviceInfo> cuda_devices() {
  std::vector<CudaDeviceInfo> devices;
  for (int ordinal = 0; ordinal < cuda_device_count(); ++ordinal)
    devices.push_back(cuda_device(ordinal));
  return devices;
}

std::vector<CudaLibrary> cuda_libraries() {
  // "cuBLASLt 13.1.0" without its name.
  const auto version = [](const std::string& text) { return text.substr(text.find(' ') + 1); };
  std::string cudnn;
  try {
    const auto attention = cuda::find_cudnn_attention(nullptr, cudnn);
    if (attention != nullptr) cudnn = version(attention->version());
  } catch (const Error& e) {
    cudnn = e.what();
  }
  return {{"driver", version_text(driver_version())},
          {"runtime", version_text(runtime_version())},
          {"cuBLASLt", version(cuda::matmul_library())},
          {"cuDNN", cudnn},
          {"NCCL", version(nccl_library())}};
}

}  // namespace chimera
