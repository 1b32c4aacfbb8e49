#pragma once
// Messages between memories of GPUs, behind the interface of messages between hosts.
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "chimera/comm/communicator.h"
#include "chimera/device/cuda_device.h"

namespace chimera {

// How they travel.
enum class DeviceTransport {
  Copies,  // workers are threads of one process, on one GPU or several: copied by the GPU
  Staged,  // through page-locked host memory and the host's endpoint
  Nccl,    // every rank has a GPU of its own
};

// An endpoint whose messages are memory of its worker's GPU. All of Communicator holds, but the
// time that counts is that of a lane: Compute, of a second endpoint Reductions.
//   send_start  takes the bytes that the lane has written by then;
//   recv_start  takes the buffer when the lane has come so far;
//   wait        returns when the transfer has been enqueued so that what the lane is given from now
//               on comes after it. The host waits only for the other worker's call (Copies), or for
//               the bytes (Staged); Nccl's transfers that do not end are found by a watchdog.
class DeviceCommunicator : public Communicator {
 public:
  virtual Lane lane() const = 0;
  // The host waits until all that the GPU has been given is done; throws what went wrong there, and
  // Aborted when another worker failed. After the deadline the error names the first transfer that
  // has not ended.
  virtual void synchronize(std::string_view what) = 0;
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

bool nccl_built();
std::string nccl_library();  // "NCCL 2.28.9"; "none"

}  // namespace chimera
