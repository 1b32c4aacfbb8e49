#pragma once
// Checkpoints of a run: what all workers do together around the files of the checkpoint layer.
#include <string>
#include <string_view>

#include "chimera/checkpoint/writer.h"
#include "chimera/comm/communicator.h"
#include "chimera/setup/config.h"
#include "chimera/train/run_inputs.h"

namespace chimera::train {

// Collective. Writes the checkpoint of `step` completed steps and retires old ones. False, with the
// reason logged, when some worker could not write: nothing is left of it then, and older
// checkpoints stand.
bool save_checkpoint(Worker& worker, const Config& config, const RunIdentity& identity, Index step,
                     Index consumed_samples, const std::string& run_id,
                     checkpoint::CheckpointWriter::Hook hook = {});

struct Resumed {
  Index step = 0, consumed_samples = 0;
  std::string from;  // path; empty: a fresh start
};
// Collective. `resume`: "auto" (newest valid in checkpoint.directory, damaged ones named in a
// warning), "never", or a directory, which must be whole. Loads weights and moments; without a
// checkpoint initialises the weights, or reads them from train.init_from.
Resumed load_or_initialize(Worker& worker, const Config& config, const RunIdentity& identity,
                           const std::string& resume);

// Equal on all workers: the text of rank 0.
std::string broadcast_text(Communicator& comm, const std::string& text, std::string_view what);

}  // namespace chimera::train
