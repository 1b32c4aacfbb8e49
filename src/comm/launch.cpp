#include <cstdlib>
#include <string_view>

#include "chimera/comm/communicator.h"

namespace chimera {

// The innermost launcher counts: mpirun inside a Slurm step starts its own helpers through srun.
// SLURM_NTASKS is no sign of a launch: a batch shell has it, and so has a plain run there.
int launched_processes() {
  for (const char* name : {"PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS"}) {
    const char* text = std::getenv(name);
    if (text == nullptr || *text == '\0') continue;
    char* end = nullptr;
    const long value = std::strtol(text, &end, 10);
    if (*end == '\0' && value >= 1 && value <= 1 << 30) return static_cast<int>(value);
  }
  return 0;
}

// Cray's MPI now and before, MPICH and its OFI device, MVAPICH.
std::string gpu_aware_mpi_warning() {
  for (const char* name :
       {"MPICH_GPU_SUPPORT_ENABLED", "MPICH_RDMA_ENABLED_CUDA", "MPIR_CVAR_ENABLE_GPU",
        "MPIR_CVAR_CH4_OFI_ENABLE_HMEM", "MV2_USE_CUDA"}) {
    const char* text = std::getenv(name);
    if (text == nullptr || *text == '\0' || std::string_view(text) == "0") continue;
    return concat(name, "=", text,
                  " lets MPI work on GPUs; beside NCCL, which carries this job's messages between "
                  "them, that can hang: set it to 0 (or parallel.transport to mpi)");
  }
  return {};
}

}  // namespace chimera
