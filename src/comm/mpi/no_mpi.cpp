// Linked where MPI is not available.
#include "chimera/comm/communicator.h"

namespace chimera {
namespace {

constexpr const char* kWayOut =
    "this build has no MPI: install mpich and libmpich-dev (or Open MPI's libopenmpi-dev), "
    "configure "
    "with -DCHIMERA_MPI=ON and build again; without it, workers run as threads of one process";

}  // namespace

bool mpi_built() { return false; }
bool mpi_takes_gpu_memory() { return false; }
std::string mpi_library() { FailUsage(kWayOut); }
void run_mpi(double, int, const std::function<void(Communicator&)>&, Index) { FailUsage(kWayOut); }

}  // namespace chimera
