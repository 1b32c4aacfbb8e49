#pragma once
// Messages between memories of GPUs, behind the interface of messages between hosts.
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "chimera/comm/collectives.h"
#include "chimera/device/cuda_device.h"

namespace chimera {

// How they travel.
enum class DeviceTransport {
  Copies,  // workers are threads of one process, on one GPU or several: copied by the GPU
  Staged,  // through page-locked host memory and the host's endpoint
  Nccl,    // every rank has a GPU of its own
};

// An endpoint whose messages are memory of its worker's device. All of Communicator holds, but the
// time that counts is that of a stream: Compute, of a second endpoint Reductions.
//   send_start  takes the bytes that the stream has written by then;
//   recv_start  takes the buffer when the stream has come so far;
//   wait        returns when the transfer has been enqueued so that what the stream is given from
//   now
//               on comes after it. The host waits only for the other worker's call (Copies), or for
//               the bytes (Staged); Nccl's transfers that do not end are found by a watchdog.
class DeviceCommunicator : public Communicator {
 public:
  int rank() const final { return host_.rank(); }
  int size() const final { return host_.size(); }
  Communicator& host() final { return host_; }
  Adder* adder() final { return adder_.get(); }
  void fail(std::exception_ptr error) noexcept override { host_.fail(std::move(error)); }
  void throw_if_failed() override { host_.throw_if_failed(); }
  void set_timeout_scale(double factor) final { host_.set_timeout_scale(factor); }

  Device& device() const { return device_; }
  Stream stream() const { return stream_; }
  // The host waits until all that the device has been given is done; throws what went wrong there,
  // and Aborted when another worker failed. After the deadline the error names the first transfer
  // that has not ended.
  virtual void synchronize(std::string_view what) = 0;

 protected:
  DeviceCommunicator(Communicator& host, Device& device, Stream stream,
                     std::unique_ptr<Adder> adder)
      : host_(host), device_(device), stream_(stream), adder_(std::move(adder)) {}
  // Of a second endpoint, which owns the host's.
  DeviceCommunicator(std::unique_ptr<Communicator> host, Device& device, Stream stream,
                     std::unique_ptr<Adder> adder)
      : owned_(std::move(host)),
        host_(*owned_),
        device_(device),
        stream_(stream),
        adder_(std::move(adder)) {}

 private:
  std::unique_ptr<Communicator> owned_;
  Communicator& host_;
  Device& device_;
  const Stream stream_;
  std::unique_ptr<Adder> adder_;
};

struct DeviceTransportSettings {
  // Workers that this one exchanges messages with, and shares sums with (on the second endpoint):
  // each of them lists this one, too. Others are refused by Nccl, which connects these at once.
  std::vector<int> peers, members;
  double deadline_seconds = 600;
  bool gpu_aware = false;  // Staged: the host's endpoint may be given pointers to GPU memory
};

// Called by all workers at once. `host` and `device` must outlive what is made, which host() gives
// back.
std::unique_ptr<DeviceCommunicator> make_device_communicator(
    DeviceTransport transport, Communicator& host, CudaDevice& device,
    const DeviceTransportSettings& settings);

// Copies on any kind of device; what adds there on a stream, null: the host.
using MakeAdder = std::function<std::unique_ptr<Adder>(Stream)>;
std::unique_ptr<DeviceCommunicator> make_copies_communicator(Communicator& host, Device& device,
                                                             MakeAdder make_adder);

bool nccl_built();
std::string nccl_library();  // "NCCL 2.28.9"; "none"

}  // namespace chimera
