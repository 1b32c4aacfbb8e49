// The suite over device copies, with the host's memory as every worker's device.
#include "chimera/comm/device_transport.h"
#include "comm/transport.h"

namespace chimera::test {

void run_transport(int workers, const std::function<void(Communicator&)>& body) {
  run_local(workers, /*deadline_seconds=*/60, /*threads_per_worker=*/1, [&](Communicator& host) {
    const auto device = make_host_device();
    const auto comm = make_copies_communicator(host, *device, nullptr);
    body(*comm);
  });
}

}  // namespace chimera::test
