// The suites of tests/comm over every transport between GPUs.
#include "comm/transport.h"

#include <algorithm>

#include "on_device.h"
#include "support/support.h"

namespace chimera::test {
namespace {

// NCCL matches by the order on a link alone, and connects no worker with itself.
bool is_for_nccl(const std::string& test) {
  for (const char* other : {"channels are independent", "a worker sends to itself",
                            "random patterns of messages", "ordered sum: sums share a channel"})
    if (test.starts_with(other)) return false;
  return true;
}

}  // namespace

void run_transport(int workers, const std::function<void(Communicator&)>& body) {
  std::vector<DeviceRun> runs{{DeviceTransport::Copies, 2, 4}, {DeviceTransport::Staged, 1, 3}};
  if (is_for_nccl(Catch::getResultCapture().getCurrentTestName()))
    runs.push_back({DeviceTransport::Nccl, workers, 5});
  for (const DeviceRun& run : runs) {
    INFO(to_string(run));
    run_on_devices(run, workers, /*deadline_seconds=*/50,
                   [&](DeviceCommunicator& comm, CudaDevice& device) {
                     OnDevice endpoint(comm, device);
                     body(endpoint);
                   });
  }
}

}  // namespace chimera::test
