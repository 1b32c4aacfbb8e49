#include "chimera/checkpoint/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "chimera/base/json_reader.h"
#include "chimera/base/log.h"
#include "chimera/checkpoint/checkpoint.h"
#include "names.h"
#include "tables.h"

namespace chimera::checkpoint {
namespace {

// Room for `bytes` of tensors and `files` files, with what headers and tables need beside them.
void check_space(const Path& directory, Index bytes, Index files) {
  struct statvfs info;
  ENSURE(statvfs(directory.c_str(), &info) == 0, "cannot ask for the free space of ",
         directory.string(), ": ", strerror(errno));
  const Index needed = checked_add(bytes, bytes / 100 + (Index{1} << 20));
  const Index free =
      checked_mul(static_cast<Index>(info.f_bavail), static_cast<Index>(info.f_frsize));
  ENSURE(free >= needed, directory.string(), " has ", free, " bytes free; a checkpoint needs ",
         needed, ": free some space, or set checkpoint.directory to another disk");
  // File systems without a fixed number of inodes say 0.
  ENSURE(info.f_files == 0 || static_cast<Index>(info.f_favail) >= files, directory.string(),
         " has room for ", static_cast<Index>(info.f_favail),
         " more files (inodes); a checkpoint needs ", files,
         ": remove some files, or set checkpoint.directory to another disk");
}

void remove_leftovers(const Path& directory) {
  for (const Path& path : subdirectories(directory)) {
    if (!is_temporary_name(path.filename().string())) continue;
    log_info("removing ", path.string(), ", an unfinished checkpoint of a run that ended");
    remove_tree(path);
  }
}

// Creates a directory such that it is still there after a power failure.
void make_lasting_directories(const Path& directory) {
  std::error_code ignored;
  std::vector<Path> parents_of_new;
  for (Path path = std::filesystem::absolute(directory);
       !std::filesystem::exists(path, ignored) && path.has_relative_path();
       path = path.parent_path())
    parents_of_new.push_back(path.parent_path());
  make_directories(directory);
  for (const Path& parent : parents_of_new) sync_directory(parent);
}

std::string shard_name(const char* prefix, int writer, int writers) {
  char name[64];
  snprintf(name, sizeof name, "%s-%05d-of-%05d.safetensors", prefix, writer + 1, writers);
  return name;
}

TensorShape shape_of(const NamedTensor& t) {
  TensorShape out{t.name, t.tensor.type(), {}};
  for (int i = 0; i < t.tensor.rank(); ++i) out.shape.push_back(t.tensor.dim(i));
  return out;
}

StoredFile write_small_file(const Path& directory, const std::string& name,
                            std::string_view content) {
  OutputFile file(directory / name);
  file.write(content);
  file.close();
  return {name, static_cast<Index>(content.size()), checksum_of(std::as_bytes(std::span(content)))};
}

// Hugging Face's table of which weight is in which file.
std::string weight_index(const Shard& shard) {
  Index total = 0;
  Json map = Json::object();
  auto& entries = map.get_ref<Json::object_t&>();
  for (const StoredTensor& t : shard.tensors)
    if (t.file.starts_with("model-")) {
      entries.emplace_back(t.name, t.file);
      total = checked_add(total, t.bytes);
    }
  const Json index = {{"metadata", {{"total_size", total}}}, {"weight_map", std::move(map)}};
  return index.dump(2) + "\n";
}

// Replaces `to` by `from` where both are directories: in one exchange, where the file system can.
// What was there before is at `from` afterwards.
void exchange_directories(const Path& from, const Path& to, const Path& aside) {
  if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) == 0) return;
  ENSURE(errno == EINVAL || errno == ENOSYS, "cannot rename to ", to.string(), ": ",
         strerror(errno));
  rename_path(to, aside);
  rename_path(from, to);
  rename_path(aside, from);
}

// Takes a checkpoint out of the list in one rename, then removes it, manifest first.
void remove_checkpoint(const Path& path, const Path& aside) {
  rename_path(path, aside);
  sync_directory(path.parent_path());
  std::error_code ignored;
  std::filesystem::remove(aside / kManifestName, ignored);
  remove_tree(aside);
}

bool is_whole(const Path& path) {
  try {
    Checkpoint::open(path);
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

CheckpointWriter::CheckpointWriter(Path directory, Index step, const std::string& run_id, Hook hook)
    : directory_(std::move(directory)), step_(step), run_id_(run_id), hook_(std::move(hook)) {
  ENSURE(is_run_id(run_id + "-replaced"), "the run id ", in_quotes(run_id),
         " does not consist of letters, digits and '-', or is too long");
  temporary_ = directory_ / temporary_name(step, run_id);
}

void CheckpointWriter::begin(Index bytes, int writers) {
  make_lasting_directories(directory_);
  remove_leftovers(directory_);
  check_space(directory_, bytes, Index{2} * writers + 16);
  std::error_code error;
  std::filesystem::create_directory(temporary_, error);
  ENSURE(!error, "cannot create the directory ", temporary_.string(), ": ", error.message());
  reach("begin");
}

std::string CheckpointWriter::write_shard(int writer, int writers,
                                          std::span<const NamedTensor> tensors) const {
  ENSURE(writer >= 0 && writer < writers, "writer ", writer, " of ", writers);
  Shard shard;
  for (const Kind kind : {Kind::Weight, Kind::Moment}) {
    std::vector<TensorShape> shapes;
    std::vector<const NamedTensor*> data;
    for (const Index width : {8, 4, 2})  // wider types first: every tensor stays aligned
      for (const NamedTensor& t : tensors)
        if (t.kind == kind && size_of(t.tensor.type()) == width) {
          shapes.push_back(shape_of(t));
          data.push_back(&t);
        }
    if (data.empty()) continue;
    const std::string name =
        shard_name(kind == Kind::Weight ? "model" : "optimizer", writer, writers);
    SafetensorsWriter file(temporary_ / name, std::move(shapes));
    for (const NamedTensor* t : data) {
      if (t->device == nullptr) {
        file.write(bytes_of(t->tensor));
      } else {
        HostCopy copy(*t->device, t->tensor);
        copy.load();
        file.write(bytes_of(copy.here()));
      }
      reach("shard");
    }
    file.close();
    for (std::size_t i = 0; i < data.size(); ++i)
      shard.tensors.push_back({file.entries()[i], name, file.tensor_checksums()[i]});
    shard.files.push_back({name, file.file_bytes(), file.file_checksum()});
  }
  reach("shard-done");
  return to_record(shard);
}

Path CheckpointWriter::commit(Manifest manifest, std::span<const std::string> records,
                              std::span<const ExtraFile> extra) const {
  Shard all;
  for (const std::string& record : records) {
    Shard shard = parse_record(record);
    std::ranges::move(shard.tensors, std::back_inserter(all.tensors));
    std::ranges::move(shard.files, std::back_inserter(all.files));
  }
  std::ranges::sort(all.tensors, {}, &StoredTensor::name);
  const auto add = [&](const std::string& name, std::string_view content) {
    check_file_name(name, "the checkpoint " + temporary_.string());
    all.files.push_back(write_small_file(temporary_, name, content));
  };
  add("config.json", huggingface_config(manifest.model, manifest.end_of_text));
  add("model.safetensors.index.json", weight_index(all));
  bool folder = false;
  for (const ExtraFile& file : extra) {
    if (file.name.starts_with("tokenizer/")) make_directories(temporary_ / "tokenizer");
    folder |= file.name.starts_with("tokenizer/");
    add(file.name, file.content);
  }
  if (folder) sync_directory(temporary_ / "tokenizer");
  sync_directory(temporary_);
  reach("files");

  std::ranges::sort(all.files, {}, &StoredFile::name);
  check_tables(all.files, all.tensors, "the checkpoint " + temporary_.string());
  manifest.step = step_;
  manifest.tensors = std::move(all.tensors);
  manifest.files = std::move(all.files);
  const std::string text = to_text(manifest);
  ENSURE(static_cast<Index>(text.size()) <= kMaxManifest, "the manifest of ", temporary_.string(),
         " would have ", text.size(), " bytes; at most ", kMaxManifest, " can be read back");
  write_small_file(temporary_, kManifestName, text);
  sync_directory(temporary_);
  reach("manifest");
  return publish();
}

Path CheckpointWriter::publish() const {
  const Path target = directory_ / step_name(step_);
  std::error_code ignored;
  const bool replaces = std::filesystem::exists(target, ignored);
  if (replaces)
    exchange_directories(temporary_, target,
                         directory_ / temporary_name(step_, run_id_ + "-replaced"));
  else
    rename_path(temporary_, target);
  reach("rename");
  sync_directory(directory_);
  if (replaces) remove_tree(temporary_);
  reach("committed");
  return target;
}

void CheckpointWriter::abandon() const noexcept {
  try {
    std::error_code ignored;
    if (std::filesystem::exists(temporary_, ignored)) remove_tree(temporary_);
  } catch (const std::exception& e) {
    log_warning("an unfinished checkpoint stays behind: ", e.what());
  }
}

std::vector<Path> CheckpointWriter::retire(Index keep) const {
  ENSURE(keep >= 1, "checkpoint.keep is ", keep, "; at least 1 must stay");
  std::vector<Path> removed;
  std::vector<Listed> listed = list_checkpoints(directory_);
  Index kept = 0;
  for (; !listed.empty(); listed.pop_back()) {
    const auto& [step, path] = listed.back();
    if (step > step_) continue;
    if (kept < keep) {
      if (step == step_ || is_whole(path)) ++kept;
      continue;
    }
    reach("retire");
    remove_checkpoint(path, directory_ / temporary_name(step, run_id_ + "-retired"));
    removed.push_back(path);
  }
  reach("retired");
  return removed;
}

}  // namespace chimera::checkpoint
