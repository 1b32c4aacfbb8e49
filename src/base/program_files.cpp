#include "chimera/base/program_files.h"

namespace chimera {

Path program_file(const Path& name) {
  std::error_code failed;
  const Path folder = std::filesystem::read_symlink("/proc/self/exe", failed).parent_path();
  const Path beside = folder / "share/chimera" / name;
  if (std::filesystem::exists(beside)) return beside;
  return folder.parent_path() / "share/chimera" / name;
}

}  // namespace chimera
