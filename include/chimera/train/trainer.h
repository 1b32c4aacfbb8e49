#pragma once
// A whole training run.
#include <string>

#include "chimera/base/check.h"
#include "chimera/setup/config.h"
#include "chimera/train/run_inputs.h"

namespace chimera::train {

struct TrainOptions {
  std::string resume = "auto";  // auto, never, or a checkpoint directory
  bool check = false;  // check configuration, data and schedule, print the plan, do not train
};

// Runs `config` to its last step or to a stop signal: ExitCode::Done or ExitCode::Stopped (after a
// checkpoint). Prints to standard output from rank 0 alone.
ExitCode train(const Config& config, const TrainOptions& options);

// The same over samples that the caller brings.
ExitCode train_on(const Config& config, const TrainOptions& options, const RunInputs& inputs);

}  // namespace chimera::train
