#include "chimera/comm/device_transport.h"

#include "device/launch.h"
#include "ordered_sum.h"
#include "transports.h"

namespace chimera {
namespace {

constexpr int kSetupTag = Communicator::kTags - 1;  // of the host's endpoint

class CudaAdder final : public Adder {
 public:
  CudaAdder(CudaDevice& device, Stream stream) : device_(device), stream_(stream) {}
  void add(float* result, std::span<const float* const> sources, float* spare,
           Index count) override {
    check_cuda(cudaSetDevice(device_.ordinal()), "selecting the GPU");
    cuda::ordered_sum(result, sources, spare, count, device_.stream(stream_));
  }

 private:
  CudaDevice& device_;
  const Stream stream_;
};

// GPUs that can reach each other's memory do; CUDA stages other copies in host memory.
void connect_peers(Communicator& host, const CudaDevice& device) {
  std::vector<double> ordinals(static_cast<std::size_t>(host.size()));
  ordinals[static_cast<std::size_t>(host.rank())] = device.ordinal();
  sum_over_ranks(host, kSetupTag, ordinals, "the GPUs of all workers");
  check_cuda(cudaSetDevice(device.ordinal()), "selecting the GPU");
  for (const double number : ordinals) {
    const int peer = static_cast<int>(number);
    if (peer == device.ordinal()) continue;
    int can = 0;
    check_cuda(cudaDeviceCanAccessPeer(&can, device.ordinal(), peer), "asking for peer access");
    if (can == 0) continue;
    const cudaError_t status = cudaDeviceEnablePeerAccess(peer, 0);
    if (status == cudaErrorPeerAccessAlreadyEnabled)
      cudaGetLastError();
    else
      check_cuda(status, "enabling access to another GPU's memory");
  }
}

}  // namespace

std::unique_ptr<Adder> make_cuda_adder(CudaDevice& device, Stream stream) {
  return std::make_unique<CudaAdder>(device, stream);
}

std::unique_ptr<DeviceCommunicator> make_device_communicator(
    DeviceTransport transport, Communicator& host, CudaDevice& device,
    const DeviceTransportSettings& settings) {
  switch (transport) {
    case DeviceTransport::Copies:
      connect_peers(host, device);
      return make_copies_communicator(
          host, device, [&device](Stream stream) { return make_cuda_adder(device, stream); });
    case DeviceTransport::Staged: return make_staged_communicator(host, device, settings);
    case DeviceTransport::Nccl: return make_nccl_communicator(host, device, settings);
  }
  Fail("there is no such transport");
}

}  // namespace chimera
