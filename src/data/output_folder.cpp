#include "output_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "chimera/base/log.h"
#include "chimera/data/manifest.h"

namespace chimera::data {
namespace {

namespace fs = std::filesystem;

Path absolute_folder(const Path& path) {
  ENSURE(!path.empty(), "no output folder is named");
  std::error_code error;
  const Path full = fs::weakly_canonical(fs::absolute(path), error);
  ENSURE(!error, "cannot look up ", path.string(), ": ", error.message());
  const Path folder = full.has_filename() ? full : full.parent_path();
  ENSURE(folder.has_filename(), path.string(), " cannot be the output folder; name one to be made");
  return folder;
}

bool is_ours(const std::string& name) {
  const bool shard =
      (name.starts_with("train-") || name.starts_with("val-")) && name.ends_with(".bin");
  return shard || name == kManifestName || name == kTokenizerFolder || name == "train.txt" ||
         name == "val.txt";
}

void check_existing(const Path& path, OutputFolder::Existing existing) {
  std::error_code error;
  if (!fs::exists(path, error)) return;
  ENSURE(fs::is_directory(path, error), path.string(),
         " is there and is no folder; name another --output");
  const fs::directory_iterator entries(path, error);
  ENSURE(!error, "cannot read the folder ", path.string(), ": ", error.message());
  for (const fs::directory_entry& entry : entries) {
    ENSURE(existing == OutputFolder::Existing::Replace, path.string(),
           " is not empty; name another --output, or replace a data set with --force");
    const std::string name = entry.path().filename().string();
    ENSURE(is_ours(name), path.string(), " holds ", name,
           ", which is not part of a data set; --force replaces data sets alone: move it away or "
           "name another --output");
  }
}

}  // namespace

OutputFolder::OutputFolder(const Path& path, Existing existing) : path_(absolute_folder(path)) {
  check_existing(path_, existing);
  const Path parent = path_.parent_path();
  const std::string name = path_.filename().string();
  make_directories(parent);
  lock_path_ = parent / ("." + name + ".lock");
  lock_.emplace(parent, lock_path_.filename().string(),
                "another `data prepare` for " + path_.string() + " runs:");
  building_ = parent / ("." + name + ".partial");
  remove_tree(building_);  // of a run that was killed
  make_directories(building_);
}

OutputFolder::~OutputFolder() {
  std::error_code ignored;
  fs::remove_all(building_, ignored);
  fs::remove(lock_path_, ignored);
}

void OutputFolder::commit() {
  sync_directory(building_);
  std::error_code error;
  if (!fs::exists(path_, error) || fs::is_empty(path_, error)) {
    rename_path(building_, path_);
  } else if (renameat2(AT_FDCWD, building_.c_str(), AT_FDCWD, path_.c_str(), RENAME_EXCHANGE) ==
             0) {
    remove_tree(building_);
  } else {  // a file system that cannot exchange: for a moment nothing is there
    const Path old = path_.string() + ".old";
    remove_tree(old);
    rename_path(path_, old);
    rename_path(building_, path_);
    remove_tree(old);
  }
  sync_directory(path_.parent_path());
}

}  // namespace chimera::data
