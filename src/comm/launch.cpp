#include <cstdlib>

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

}  // namespace chimera
