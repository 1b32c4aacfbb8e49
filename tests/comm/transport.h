#pragma once
// One suite for every transport: the tests in tests/comm/*.cpp are linked once with each definition
// of run_transport(), in tests/comm/local and tests/comm/mpi.
#include <functional>

#include "chimera/comm/communicator.h"

namespace chimera::test {

constexpr int kMostWorkers = 4;           // what the mpi suite is started with
constexpr Index kChunkBytes = 64 * 1024;  // the mpi suite's chunks, to need many of them

// Runs body on `workers` <= kMostWorkers. Catch2's assertions are not made for threads: bodies use
// ENSURE, and its Error fails the test.
void run_transport(int workers, const std::function<void(Communicator&)>& body);

}  // namespace chimera::test
