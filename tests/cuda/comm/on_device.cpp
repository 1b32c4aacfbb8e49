#include "on_device.h"

#include <cuda_runtime.h>

#include <numeric>

#include "emulator/control.h"
#include "gpu_aware.h"
#include "support/support.h"

namespace chimera::test {
namespace {

void check(cudaError_t status) {
  ENSURE(status == cudaSuccess, "CUDA: ", cudaGetErrorString(status));
}

const CudaDevice& gpu_of(const DeviceCommunicator& comm) {
  return dynamic_cast<const CudaDevice&>(comm.device());
}

void copy(const DeviceCommunicator& comm, void* to, const void* from, Index bytes,
          cudaMemcpyKind kind) {
  const CudaDevice& gpu = gpu_of(comm);
  check(cudaSetDevice(gpu.ordinal()));
  const cudaStream_t stream = gpu.stream(comm.stream());
  check(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), kind, stream));
  if (kind == cudaMemcpyDeviceToHost) check(cudaStreamSynchronize(stream));
}

}  // namespace

void to_device(const DeviceCommunicator& comm, void* device, const void* host, Index bytes) {
  copy(comm, device, host, bytes, cudaMemcpyHostToDevice);
}
void to_host(const DeviceCommunicator& comm, void* host, const void* device, Index bytes) {
  copy(comm, host, device, bytes, cudaMemcpyDeviceToHost);
}

std::string to_string(const DeviceRun& run) {
  const char* const names[] = {"copies", "staged", "nccl"};
  return concat(names[static_cast<int>(run.transport)],
                run.gpu_aware ? " by GPU-aware MPI on " : " on ", run.devices, " GPUs, seed ",
                run.seed);
}

void run_on_devices(const DeviceRun& run, int workers, double deadline_seconds,
                    const DeviceBody& body) {
  emulator::Options options;
  options.seed = run.seed;
  options.devices = run.devices;
  emulator::reset(options);
  run_local(workers, deadline_seconds, /*threads_per_worker=*/1, [&](Communicator& host) {
    const auto device = make_cuda_device(host.rank() % run.devices);
    GpuAware mpi(host, *device);
    DeviceTransportSettings settings{.deadline_seconds = deadline_seconds,
                                     .gpu_aware = run.gpu_aware};
    for (int peer = 0; peer < workers; ++peer)
      if (peer != host.rank()) settings.peers.push_back(peer);
    settings.members = settings.peers;
    const auto comm = make_device_communicator(
        run.transport, run.gpu_aware ? static_cast<Communicator&>(mpi) : host, *device, settings);
    body(*comm, *device);
  });
  INFO(to_string(run) << ": " << emulator::last_report());
  CHECK(emulator::report_count() == 0);
  CHECK(emulator::statistics().live_allocations == 0);
}

// Sources and result in device memory of their own, but for those that are one.
class OnDevice::OutAndIn final : public Adder {
 public:
  explicit OutAndIn(OnDevice& endpoint) : endpoint_(endpoint) {}
  void add(float* result, std::span<const float* const> sources, float* spare,
           Index count) override {
    if (count == 0) return;
    const Index bytes = count * static_cast<Index>(sizeof(float));
    std::map<const float*, std::span<std::byte>> there;
    const auto on_device = [&](const float* host) {
      std::span<std::byte>& memory = there[host];
      if (memory.empty()) memory = endpoint_.take(bytes);
      return reinterpret_cast<float*>(memory.data());
    };
    std::vector<const float*> device_sources;
    for (const float* source : sources) {
      device_sources.push_back(on_device(source));
      to_device(endpoint_.comm_, there[source].data(), source, bytes);
    }
    float* const device_result = on_device(result);
    endpoint_.comm_.adder()->add(device_result, device_sources,
                                 spare == nullptr ? nullptr : on_device(spare), count);
    to_host(endpoint_.comm_, result, device_result, bytes);
    for (const auto& [host, memory] : there) endpoint_.give_back(memory);
  }

 private:
  OnDevice& endpoint_;
};

OnDevice::OnDevice(DeviceCommunicator& comm, CudaDevice& device)
    : comm_(comm), device_(device), adder_(std::make_unique<OutAndIn>(*this)) {}
OnDevice::~OnDevice() {
  if (!messages_.empty()) comm_.abandon();
}

std::span<std::byte> OnDevice::take(Index bytes) {
  constexpr Index kAlignment = 256, kBlock = Index{4} << 20;
  const auto found = idle_.lower_bound(bytes);
  if (found != idle_.end()) {
    const std::span<std::byte> piece = found->second;
    idle_.erase(found);
    return piece;
  }
  const Index size = ceil_div(std::max<Index>(bytes, 1), kAlignment) * kAlignment;
  if (std::ssize(rest_) < size) {
    blocks_.push_back(std::make_unique<Buffer>(device_, std::max(size, kBlock)));
    rest_ = {blocks_.back()->data(), static_cast<std::size_t>(blocks_.back()->bytes())};
  }
  const std::span<std::byte> piece = rest_.first(static_cast<std::size_t>(size));
  rest_ = rest_.subspan(piece.size());
  return piece;
}

OnDevice::Request OnDevice::send_start(int peer, int channel, std::span<const std::byte> bytes) {
  const std::span<std::byte> memory = take(std::ssize(bytes));
  to_device(comm_, memory.data(), bytes.data(), std::ssize(bytes));
  const Request request = comm_.send_start(peer, channel, memory.first(bytes.size()));
  messages_[request] = {memory, {}};
  return request;
}

OnDevice::Request OnDevice::recv_start(int peer, int channel, std::span<std::byte> bytes) {
  const std::span<std::byte> memory = take(std::ssize(bytes));
  const Request request = comm_.recv_start(peer, channel, memory.first(bytes.size()));
  messages_[request] = {memory, bytes};
  return request;
}

void OnDevice::wait(Request request, std::string_view what) {
  comm_.wait(request, what);
  if (request == 0) return;
  const Message message = messages_.at(request);
  messages_.erase(request);
  to_host(comm_, message.receives.data(), message.memory.data(), std::ssize(message.receives));
  comm_.throw_if_failed();
  give_back(message.memory);
}

std::unique_ptr<Communicator> OnDevice::second_endpoint() {
  std::unique_ptr<Communicator> second = comm_.second_endpoint();
  auto& endpoint = dynamic_cast<DeviceCommunicator&>(*second);
  auto made = std::make_unique<OnDevice>(endpoint, device_);
  second.release();
  made->owned_.reset(&endpoint);
  return made;
}

}  // namespace chimera::test
