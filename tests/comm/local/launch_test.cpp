// Who started this process, and whether this build has MPI.
#include <cstdlib>
#include <map>

#include "chimera/comm/communicator.h"
#include "support/support.h"

using namespace chimera;
using Catch::Matchers::Contains;

namespace {

constexpr const char* kNames[] = {"PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS",
                                  "SLURM_NTASKS"};

int launched_with(const std::map<std::string, std::string>& environment) {
  for (const char* name : kNames) unsetenv(name);
  for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
  const int launched = launched_processes();
  for (const char* name : kNames) unsetenv(name);
  return launched;
}

}  // namespace

TEST_CASE("launch: the innermost launcher's number of processes counts") {
  CHECK(launched_with({}) == 0);
  CHECK(launched_with({{"SLURM_NTASKS", "4"}}) == 0);  // a batch shell: a plain run is legitimate
  CHECK(launched_with({{"SLURM_STEP_NUM_TASKS", "3"}}) == 3);
  CHECK(launched_with({{"SLURM_STEP_NUM_TASKS", "2"}, {"PMI_SIZE", "8"}}) == 8);
  CHECK(launched_with({{"OMPI_COMM_WORLD_SIZE", "5"}}) == 5);
  CHECK(launched_with({{"PMI_SIZE", "x"}, {"OMPI_COMM_WORLD_SIZE", "6"}}) == 6);
  CHECK(launched_with({{"PMI_SIZE", "-1"}}) == 0);
  CHECK(launched_with({{"PMI_SIZE", ""}}) == 0);
}

TEST_CASE("launch: a build knows its MPI, or says how to get one") {
  if (mpi_built()) {
    CHECK_THAT(mpi_library(), Contains("MPI"));
    CHECK(mpi_library().find_first_of("\n\t,") == std::string::npos);
  } else {
    CHECK_THROWS_AS(mpi_library(), UsageError);
    CHECK_THROWS_WITH(run_mpi(1, 1, [](Communicator&) {}), Contains("libmpich-dev"));
  }
}

TEST_CASE("launch: an MPI that works on GPUs is warned of, by the variable that says so") {
  CHECK(gpu_aware_mpi_warning().empty());
  for (const char* name :
       {"MPICH_GPU_SUPPORT_ENABLED", "MPICH_RDMA_ENABLED_CUDA", "MPIR_CVAR_ENABLE_GPU",
        "MPIR_CVAR_CH4_OFI_ENABLE_HMEM", "MV2_USE_CUDA"}) {
    setenv(name, "0", 1);
    CHECK(gpu_aware_mpi_warning().empty());
    setenv(name, "1", 1);
    CHECK_THAT(gpu_aware_mpi_warning(),
               Contains(std::string(name) + "=1") && Contains("NCCL") && Contains("set it to 0"));
    unsetenv(name);
  }
}
