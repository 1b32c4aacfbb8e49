#pragma once
// Jobs of kMostWorkers workers that fail: run as threads here, and by the mpi suite's program as
// `--scenario NAME` under mpirun.
#include <functional>
#include <string>

#include "chimera/comm/communicator.h"

namespace chimera::test {

struct Scenario {
  double deadline_seconds;
  std::function<void(Communicator&)> body;
};

// Throws on an unknown name.
Scenario scenario(const std::string& name);

}  // namespace chimera::test
