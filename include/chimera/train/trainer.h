#pragma once
// A whole training run.
#include <string>

#include "chimera/train/checkpointing.h"
#include "chimera/setup/config.h"

namespace chimera::train {

struct TrainOptions {
  std::string resume = "auto";  // auto, never, or a checkpoint directory
  bool check = false;  // check configuration, data and schedule, print the plan, do not train
};

// Runs `config` to its last step or to a stop signal: ExitCode::Done or ExitCode::Stopped (after a
// checkpoint). Prints to standard output from rank 0 alone.
ExitCode train(const Config& config, const TrainOptions& options);

// The same over samples that the caller brings: `open` is called once per process.
struct RunInputs {
  std::function<std::unique_ptr<SampleSource>()> training,
      validation;  // validation may give nullptr
  RunIdentity identity;
  std::string data_summary;  // one line for people, or empty
  std::function<void(Worker&, Index step)>
      after_step;  // tests look at the state here; may be empty
};
ExitCode train_on(const Config& config, const TrainOptions& options, const RunInputs& inputs);

}  // namespace chimera::train
