#pragma once
// Reading checkpoints. Every worker may open the same one; the caller agrees on which.
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "chimera/checkpoint/manifest.h"

namespace chimera::checkpoint {

struct Listed {
  Index step = 0;
  Path path;
};
// The checkpoints in a directory (step-N), oldest first, whole or not. A directory that does not
// exist has none; one that cannot be read is an error.
std::vector<Listed> list_checkpoints(const Path& directory);

// One checkpoint, open for reading. Not for several threads at once: each opens its own.
class Checkpoint {
 public:
  // `path`: a checkpoint, or a directory of checkpoints, whose newest is taken. Checks the manifest
  // and the presence and sizes of all files; reads no tensor.
  static Checkpoint open(const Path& path);

  const Path& path() const { return path_; }
  const Manifest& manifest() const { return manifest_; }

  // Every checksum. Throws Error naming the file and, where one is hit, the tensor.
  void verify() const;

  bool has(std::string_view name) const { return manifest_.find(name) != nullptr; }
  // Copies a tensor to host memory. Throws unless type and shape are those of `destination` and its
  // bytes have the checksum of the manifest.
  void read(std::string_view name, const Tensor& destination) const;

 private:
  Checkpoint() = default;
  const MappedFile& mapped(const std::string& file) const;

  Path path_;
  Manifest manifest_;
  mutable std::map<std::string, std::unique_ptr<MappedFile>> mapped_;
};

struct Newest {
  std::optional<Checkpoint> checkpoint;  // none: the directory has no whole checkpoint
  std::vector<std::string> passed_over;  // one message per damaged one that is newer
};
// The newest checkpoint of a directory that verifies. Reads all its bytes.
Newest newest_valid(const Path& directory);

}  // namespace chimera::checkpoint
