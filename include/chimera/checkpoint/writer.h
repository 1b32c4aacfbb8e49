#pragma once
// Writing a checkpoint: all or nothing, whatever dies and whenever.
//   committing worker          every worker                        committing worker
//   begin()            barrier  write_shard(i, K, …) -> record  gather  commit(manifest, records),
//   retire(keep)
// Any failure: abandon() on the committing worker, once no worker writes any more. Until commit()
// returns, the checkpoints before it are untouched; the barriers and the gather are the caller's.
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "chimera/checkpoint/manifest.h"
#include "chimera/tensor/host_copy.h"

namespace chimera::checkpoint {

enum class Kind { Weight, Moment };

// Weights go under their Hugging Face names, Adam's moments as adam.m.NAME and adam.v.NAME.
struct NamedTensor {
  std::string name;
  Tensor tensor;
  Kind kind = Kind::Weight;
  Device* device = nullptr;  // whose memory holds it; null: the host's
};

// A small file that goes into the checkpoint as it is, such as {"tokenizer/vocab.json", bytes}.
struct ExtraFile {
  std::string name;
  std::string content;
};

std::string step_name(Index step);  // "step-00001000"

class CheckpointWriter {
 public:
  // Called at named points, so that tests can end the process there:
  // begin, shard (after each tensor), shard-done, files, manifest, rename, committed, retire,
  // retired.
  using Hook = std::function<void(std::string_view point)>;

  // Names only, no I/O. All workers of a run give the same `directory` (of all checkpoints),
  // completed steps and `run_id` ([A-Za-z0-9-]+, other for each start of the program).
  CheckpointWriter(Path directory, Index step, const std::string& run_id, Hook hook = {});

  // Creates step-N.tmp.RUN in the directory (and the directory itself), after removing what dead
  // runs left under such names: the caller holds the directory's lock. Throws, naming both numbers,
  // when the file system has less room than `bytes` of tensors from `writers` workers need.
  void begin(Index bytes, int writers);

  // Writes this worker's tensors: model-… for weights, optimizer-… for moments (no file where there
  // is none), flushed to the disk. `writer` counts from 0. Any number of threads may call it at
  // once.
  std::string write_shard(int writer, int writers, std::span<const NamedTensor> tensors) const;

  // Adds Hugging Face's config.json and model.safetensors.index.json, the extra files and, last,
  // the manifest with the tables of all records; flushes; renames. A checkpoint of the same step is
  // replaced in one exchange. Returns its directory.
  Path commit(Manifest manifest, std::span<const std::string> records,
              std::span<const ExtraFile> extra = {}) const;

  // Removes the temporary directory; a failure to do so is logged.
  void abandon() const noexcept;

  // Removes old checkpoints of steps up to this one's, except the newest `keep` (>= 1) that are
  // whole by manifest and sizes; never this step's. Returns the removed directories.
  std::vector<Path> retire(Index keep) const;

  const Path& temporary() const { return temporary_; }

 private:
  Path publish() const;
  void reach(std::string_view point) const {
    if (hook_) hook_(point);
  }

  Path directory_, temporary_;
  Index step_;
  std::string run_id_;
  Hook hook_;
};

// Hugging Face's config.json for a model whose tensors are stored under GPT2LMHeadModel's names.
std::string huggingface_config(const model::ModelConfig& model, Index end_of_text);

}  // namespace chimera::checkpoint
