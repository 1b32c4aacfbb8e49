#pragma once
// An endpoint of host memory whose messages go through a GPU: in to it, from GPU to GPU by one of
// the transports, and out. So the suites of tests/comm are the transports' suites, too.
#include <map>
#include <vector>

#include "chimera/comm/device_transport.h"

namespace chimera::test {

// How workers and GPUs of a run are laid out.
struct DeviceRun {
  DeviceTransport transport;
  int devices;  // workers take turns
  std::uint64_t seed;
  bool gpu_aware = false;  // staged: by an MPI that takes pointers to GPU memory
};
std::string to_string(const DeviceRun& run);

// Runs body on `workers` threads, each with a GPU and an endpoint, on a fresh emulator; checks that
// it reported nothing and that nothing is left. Throws what the run threw.
using DeviceBody = std::function<void(DeviceCommunicator& comm, CudaDevice& device)>;
void run_on_devices(const DeviceRun& run, int workers, double deadline_seconds,
                    const DeviceBody& body);

class OnDevice final : public Communicator {
 public:
  OnDevice(DeviceCommunicator& comm, CudaDevice& device);
  ~OnDevice() override;
  int rank() const override { return comm_.rank(); }
  int size() const override { return comm_.size(); }
  std::string transport() const override { return comm_.transport(); }
  Adder* adder() override { return adder_.get(); }
  Request send_start(int peer, int channel, std::span<const std::byte> bytes) override;
  Request recv_start(int peer, int channel, std::span<std::byte> bytes) override;
  // Also waits for the GPU.
  void wait(Request request, std::string_view what) override;
  void abandon() noexcept override { comm_.abandon(); }
  std::unique_ptr<Communicator> second_endpoint() override;
  void fail(std::exception_ptr error) noexcept override { comm_.fail(std::move(error)); }
  void throw_if_failed() override { comm_.throw_if_failed(); }
  void set_timeout_scale(double factor) override { comm_.set_timeout_scale(factor); }

 private:
  class OutAndIn;
  struct Message {
    std::span<std::byte> memory, receives;
  };
  // Pieces of few blocks, which are many: the emulator's time for an operation grows with the
  // number of allocations. Freed at the end: that waits for all messages under way.
  std::span<std::byte> take(Index bytes);
  void give_back(std::span<std::byte> piece) { idle_.emplace(std::ssize(piece), piece); }

  std::unique_ptr<DeviceCommunicator> owned_;  // of a second endpoint
  DeviceCommunicator& comm_;
  CudaDevice& device_;
  std::unique_ptr<Adder> adder_;
  std::vector<std::unique_ptr<Buffer>> blocks_;
  std::span<std::byte> rest_;  // of the last block
  std::multimap<Index, std::span<std::byte>> idle_;
  std::map<Request, Message> messages_;
};

// Between pageable host memory and the GPU's, on the endpoint's stream; to_host waits.
void to_device(const DeviceCommunicator& comm, void* device, const void* host, Index bytes);
void to_host(const DeviceCommunicator& comm, void* host, const void* device, Index bytes);

}  // namespace chimera::test
