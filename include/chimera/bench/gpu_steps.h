#pragma once
#include <string>
#include <vector>

#include "chimera/base/types.h"

namespace chimera::bench {

struct GpuStepArguments {
  std::vector<std::string> models{"all"};
  std::string type = "bf16", json;
  Index steps = 4, samples = 0, micro_batches = 4;
};

// The published shapes at T 1024, the paper's at T 632, and a tiny one for the emulator.
std::vector<std::string> gpu_step_models();

// A row per model on one GPU, and one on all where there are several (replicas whose optimizer
// state is shared out), as Markdown; the numbers as JSON where asked.
void run_gpu_steps(const GpuStepArguments& arguments);

}  // namespace chimera::bench
