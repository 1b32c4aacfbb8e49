#pragma once
// A host's endpoint that takes pointers to GPU memory, as a CUDA-aware MPI does: it reads what is
// sent when that is posted, and writes what is received in the wait, on a stream that waits for no
// other.
#include <cuda_runtime.h>

#include <map>
#include <mutex>
#include <vector>

#include "chimera/comm/communicator.h"
#include "chimera/device/cuda_device.h"

namespace chimera::test {

class GpuAware final : public Communicator {
 public:
  GpuAware(Communicator& host, CudaDevice& device) : host_(host), device_(device) {
    cudaSetDevice(device.ordinal());
    cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking);
  }
  GpuAware(std::unique_ptr<Communicator> host, CudaDevice& device) : GpuAware(*host, device) {
    owned_ = std::move(host);
  }
  ~GpuAware() override { cudaStreamDestroy(stream_); }
  int rank() const override { return host_.rank(); }
  int size() const override { return host_.size(); }
  std::string transport() const override { return "mpi"; }
  Request send_start(int peer, int channel, std::span<const std::byte> bytes) override {
    Message message{{}, std::vector<std::byte>(bytes.size())};
    copy(message.staged.data(), bytes.data(), bytes.size(), cudaMemcpyDeviceToHost);
    return keep(host_.send_start(peer, channel, message.staged), std::move(message));
  }
  Request recv_start(int peer, int channel, std::span<std::byte> bytes) override {
    Message message{bytes, std::vector<std::byte>(bytes.size())};
    return keep(host_.recv_start(peer, channel, message.staged), std::move(message));
  }
  void wait(Request request, std::string_view what) override {
    host_.wait(request, what);
    const std::lock_guard lock(mutex_);
    const auto node = messages_.extract(request);
    if (!node || node.mapped().receives.empty()) return;
    copy(node.mapped().receives.data(), node.mapped().staged.data(), node.mapped().staged.size(),
         cudaMemcpyHostToDevice);
  }
  void abandon() noexcept override { host_.abandon(); }
  std::unique_ptr<Communicator> second_endpoint() override {
    return std::make_unique<GpuAware>(host_.second_endpoint(), device_);
  }
  void fail(std::exception_ptr error) noexcept override { host_.fail(std::move(error)); }
  void throw_if_failed() override { host_.throw_if_failed(); }

 private:
  struct Message {
    std::span<std::byte> receives;
    std::vector<std::byte> staged;
  };
  void copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
    cudaSetDevice(device_.ordinal());
    ENSURE(cudaMemcpyAsync(to, from, bytes, kind, stream_) == cudaSuccess &&
               cudaStreamSynchronize(stream_) == cudaSuccess,
           "a pointer that is no GPU memory");
  }
  Request keep(Request request, Message&& message) {
    const std::lock_guard lock(mutex_);
    messages_[request] = std::move(message);
    return request;
  }

  std::unique_ptr<Communicator> owned_;
  Communicator& host_;
  CudaDevice& device_;
  cudaStream_t stream_ = nullptr;
  std::mutex mutex_;
  std::map<Request, Message> messages_;
};

}  // namespace chimera::test
