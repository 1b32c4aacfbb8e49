#pragma once
// Checkpoints of a run: what all workers do together around the files of the checkpoint layer.
#include <optional>
#include <string>

#include "chimera/checkpoint/checkpoint.h"
#include "chimera/checkpoint/writer.h"
#include "chimera/runtime/worker.h"

namespace chimera::train {

// What identifies a run's data and how it computes; goes into every checkpoint.
struct RunIdentity {
  std::string data_fingerprint, tokenizer_fingerprint;
  Index end_of_text = -1;
  std::vector<checkpoint::ExtraFile> tokenizer_files;
  std::map<std::string, std::string> environment;  // "layout", "threads", "isa", "matmul", "build"
};

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
