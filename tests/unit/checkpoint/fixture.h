#pragma once
// Small checkpoints with known numbers, and processes that die on purpose.
#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "chimera/checkpoint/checkpoint.h"
#include "chimera/checkpoint/writer.h"
#include "support/support.h"

namespace chimera::test {

// A TemporaryFolder in memory where /dev/shm can be written: hundreds of checkpoints, each with its
// fsyncs, take a minute on a disk.
class MemoryFolder {
 public:
  MemoryFolder();
  ~MemoryFolder();
  MemoryFolder(const MemoryFolder&) = delete;
  const Path& path() const { return path_; }
  Path operator/(const std::string& name) const { return path_ / name; }

 private:
  Path path_;
};

// Tensors of a model as two workers hold them, with values that depend on the step.
class Numbers {
 public:
  Numbers(Index step, int writer);
  std::vector<checkpoint::NamedTensor> tensors();

 private:
  struct Owned {
    std::string name;
    std::vector<float> values;
    Index rows;
  };
  std::vector<Owned> owned_;
};

checkpoint::Manifest some_manifest();

// Writes the checkpoint of `step` with two writers and returns its directory. `salt` changes the
// numbers. On an exception the writer abandons, as a trainer does.
Path write_checkpoint(const Path& directory, Index step, Index keep = 100,
                      checkpoint::CheckpointWriter::Hook hook = {}, Index salt = 0);

// Every tensor of both writers, compared bit by bit.
bool holds_numbers_of(const checkpoint::Checkpoint& checkpoint, Index step, Index salt = 0);

// The message of the Error that `body` throws; fails the test when it throws none.
std::string error_of(const std::function<void()>& body);

std::vector<std::string> names_in(const Path& directory);

}  // namespace chimera::test
