// Devices and their properties, functions' attributes.
#include <cstring>

#include "launch_limits.h"
#include "machine.h"
#include "symbols.h"

using namespace emulator;

namespace {

int checked_device(const Machine& m, int device) {
  if (device < 0 || device >= m.options.devices)
    refuse(cudaErrorInvalidDevice, "device ", device, " of ", m.options.devices);
  return device;
}

}  // namespace

cudaError_t cudaDriverGetVersion(int* version) {
  *version = 0;
  return api_call([&](Machine& m, auto&) {
    *version = m.options.driver;
    return cudaSuccess;
  });
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 0;
  return api_call([&](Machine& m, auto&) {
    if (m.options.driver < CUDART_VERSION) return cudaErrorInsufficientDriver;
    *count = m.options.devices;
    return m.options.devices > 0 ? cudaSuccess : cudaErrorNoDevice;
  });
}

cudaError_t cudaSetDevice(int device) {
  return api_call([&](Machine& m, auto&) {
    current_device() = checked_device(m, device);
    return cudaSuccess;
  });
}

cudaError_t cudaGetDevice(int* device) {
  return api_call([&](Machine&, auto&) {
    *device = current_device();
    return cudaSuccess;
  });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return api_call([&](Machine& m, auto&) {
    checked_device(m, device);
    const DeviceLimits limits = device_limits(m.options.capability);
    cudaDeviceProp p = {};
    std::strcpy(p.name, "CUDA emulator");
    p.uuid.bytes[0] = static_cast<char>(device);
    p.totalGlobalMem = m.options.memory_bytes;
    p.sharedMemPerBlock = limits.shared_per_block;
    p.sharedMemPerBlockOptin = limits.shared_opt_in;
    p.sharedMemPerMultiprocessor = limits.shared_opt_in + 1024;
    p.warpSize = 32;
    p.maxThreadsPerBlock = limits.threads;
    p.maxThreadsDim[0] = p.maxThreadsDim[1] = 1024;
    p.maxThreadsDim[2] = 64;
    p.maxGridSize[0] = 2147483647;
    p.maxGridSize[1] = p.maxGridSize[2] = 65535;
    p.major = m.options.capability / 10;
    p.minor = m.options.capability % 10;
    p.multiProcessorCount = limits.multiprocessors;
    p.maxThreadsPerMultiProcessor = 2048;
    p.l2CacheSize = 32 << 20;
    p.memoryBusWidth = 5120;
    p.pciBusID = device + 1;
    *properties = p;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  cudaDeviceProp p;
  if (const cudaError_t error = cudaGetDeviceProperties(&p, device); error != cudaSuccess)
    return error;
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock: *value = p.maxThreadsPerBlock; break;
    case cudaDevAttrMaxSharedMemoryPerBlock: *value = static_cast<int>(p.sharedMemPerBlock); break;
    case cudaDevAttrWarpSize: *value = p.warpSize; break;
    case cudaDevAttrMultiProcessorCount: *value = p.multiProcessorCount; break;
    case cudaDevAttrMaxThreadsPerMultiProcessor: *value = p.maxThreadsPerMultiProcessor; break;
    case cudaDevAttrComputeCapabilityMajor: *value = p.major; break;
    case cudaDevAttrComputeCapabilityMinor: *value = p.minor; break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      *value = static_cast<int>(p.sharedMemPerMultiprocessor);
      break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = static_cast<int>(p.sharedMemPerBlockOptin);
      break;
  }
  return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device) {
  return api_call([&](Machine& m, auto&) {
    checked_device(m, device);
    std::snprintf(text, static_cast<std::size_t>(length), "0000:%02x:00.0", device + 1);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceSynchronize() {
  return api_call([](Machine& m, Machine::Lock& lock) {
    refuse_during_capture(m, "cudaDeviceSynchronize");
    const cudaError_t error = m.drain(lock, m.streams_of(current_device()));
    if (const auto damage = m.memory.check_guards(); damage && error == cudaSuccess)
      m.fail(*damage);
    return error;
  });
}

cudaError_t cudaDeviceReset() {
  reset(options());
  return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  return api_call([&](Machine& m, auto&) {
    *can = checked_device(m, device) != checked_device(m, peer);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned) {
  return api_call([&](Machine& m, auto&) {
    if (checked_device(m, peer) == current_device())
      refuse(cudaErrorInvalidDevice, "device ", peer, " is no peer of itself");
    std::uint64_t& peers = m.peers[static_cast<std::size_t>(current_device())];
    const std::uint64_t bit = std::uint64_t{1} << peer;
    if (peers & bit) return cudaErrorPeerAccessAlreadyEnabled;
    peers |= bit;
    return cudaSuccess;
  });
}

cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value) {
  return api_call([&](Machine& m, auto&) {
    if (m.options.capability < m.options.code) return cudaErrorNoKernelImageForDevice;
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
    const auto most = static_cast<int>(device_limits(m.options.capability).shared_opt_in);
    if (value < 0 || value > most)
      refuse(cudaErrorInvalidValue, function_name(kernel), " asks for ", value,
             " bytes of dynamic shared memory; a block of compute capability ",
             m.options.capability, " can have ", most);
    m.functions[kernel].dynamic_shared = value;
    return cudaSuccess;
  });
}

cudaError_t cudaFuncGetName(const char** name, const void* kernel) {
  thread_local std::string text;
  text = function_name(kernel);
  *name = text.c_str();
  return cudaSuccess;
}
