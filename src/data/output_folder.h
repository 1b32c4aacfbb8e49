#pragma once
// A folder of `data prepare` under construction.
#include <optional>

#include "chimera/base/file.h"

namespace chimera::data {

class OutputFolder {
 public:
  enum class Existing { Refuse, Replace };
  // Refuses when `path` is there and not empty, unless it may be replaced and holds nothing but
  // what `data prepare` writes. A lock beside it keeps a second run off.
  OutputFolder(const Path& path, Existing existing);
  // Without commit(): removes what was built.
  ~OutputFolder();

  const Path& building() const { return building_; }  // where the files are to be written
  const Path& path() const { return path_; }          // absolute
  // Puts the folder in its place; what was there is removed after that.
  void commit();

 private:
  Path path_, building_, lock_path_;
  std::optional<DirectoryLock> lock_;
};

}  // namespace chimera::data
