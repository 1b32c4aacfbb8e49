#include "comm/transport.h"

namespace chimera::test {

void run_transport(int workers, const std::function<void(Communicator&)>& body) {
  run_local(workers, /*deadline_seconds=*/60, /*threads_per_worker=*/1, body);
}

}  // namespace chimera::test
