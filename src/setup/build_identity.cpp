#include "chimera/setup/build_identity.h"

#include "chimera/base/file.h"
#include "chimera/base/threads.h"
#include "chimera/comm/communicator.h"
#include "chimera/ops/ops.h"

namespace chimera {

std::string build_version() { return CHIMERA_VERSION; }

std::map<std::string, std::string> build_environment() {
  return {{"build", concat(CHIMERA_VERSION, " ", CHIMERA_COMPILER)},
          {"isa", cpu_isa_report()},
          {"matmul", matmul_library()},
          {"mpi", mpi_built() ? mpi_library() : "none"}};
}

std::string build_report() {
  const std::string mpi = mpi_built() ? mpi_library()
                                      : "not built; install libmpich-dev and mpich, then configure "
                                        "again (local workers need none)";
  return concat("chimera ", CHIMERA_VERSION, ", ", CHIMERA_COMPILER, ", ", CHIMERA_BUILD_TYPE, "\n",
                "cores          ", available_cores(), " in this process's affinity mask\n",
                "cpu kernels    ", cpu_isa_report(), "\n", "matrix product ", matmul_library(),
                "\n", "mpi            ", mpi, "\n");
}

}  // namespace chimera
