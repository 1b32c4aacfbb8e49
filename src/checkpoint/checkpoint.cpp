#include "chimera/checkpoint/checkpoint.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include <algorithm>

#include "chimera/base/json_reader.h"
#include "names.h"

namespace chimera::checkpoint {
namespace {

// The size of a regular file that is no symbolic link.
Index regular_size(const Path& path) {
  struct stat info;
  ENSURE(lstat(path.c_str(), &info) == 0, "cannot read ", path.string(), ": ", strerror(errno));
  ENSURE(!S_ISLNK(info.st_mode), path.string(),
         " is a symbolic link; a checkpoint's files may not be");
  ENSURE(S_ISREG(info.st_mode), path.string(), " is not a regular file");
  return static_cast<Index>(info.st_size);
}

std::filesystem::file_type type_of(
    const Path& path) {  // of the name itself, not of a link's target
  std::error_code ignored;
  return std::filesystem::symlink_status(path, ignored).type();
}

void check_files(const Path& directory, const Manifest& manifest) {
  const Path tokenizer = directory / "tokenizer";
  ENSURE(type_of(tokenizer) != std::filesystem::file_type::symlink, tokenizer.string(),
         " is a symbolic link; a checkpoint's files may not be");
  for (const StoredFile& file : manifest.files) {
    const Path path = directory / file.name;
    const Index bytes = regular_size(path);
    ENSURE(bytes == file.bytes, path.string(), " has ", bytes, " bytes, not ", file.bytes,
           " as when it was written: it is cut off or was changed");
  }
}

// The tensor whose bytes are not what they were, for the message about a damaged file.
std::string damaged_tensor(const Manifest& manifest, const MappedFile& file,
                           const std::string& name) {
  for (const StoredTensor& t : manifest.tensors) {
    if (t.file != name) continue;
    const auto bytes =
        file.bytes().subspan(static_cast<std::size_t>(t.offset), static_cast<std::size_t>(t.bytes));
    if (checksum_of(bytes) != t.checksum)
      return concat(", in tensor ", in_quotes(t.name), " (", t.bytes, " bytes from byte ", t.offset,
                    ")");
  }
  return name.ends_with(".safetensors") ? ", in its header" : "";
}

// The header of a safetensors file says the same as the manifest.
void check_header(const Manifest& manifest, const Path& path, const std::string& name) {
  const SafetensorsFile file(path);
  for (const StoredTensor& t : manifest.tensors) {
    if (t.file != name) continue;
    const TensorEntry& entry = file.at(t.name);
    ENSURE(entry.type == t.type && entry.shape == t.shape && entry.offset == t.offset,
           path.string(), ": the header of tensor ", in_quotes(t.name),
           " does not say what the manifest says");
  }
}

}  // namespace

std::vector<Listed> list_checkpoints(const Path& directory) {
  std::vector<Listed> out;
  for (const Path& path : subdirectories(directory))
    if (const auto step = parse_step_name(path.filename().string())) out.push_back({*step, path});
  std::ranges::sort(out, {}, &Listed::step);
  return out;
}

Checkpoint Checkpoint::open(const Path& path) {
  Checkpoint out;
  out.path_ = path;
  if (type_of(path / kManifestName) == std::filesystem::file_type::not_found) {
    std::error_code ignored;
    ENSURE(std::filesystem::is_directory(path, ignored), path.string(),
           " is not a directory; a checkpoint is a directory with a ", kManifestName);
    const std::vector<Listed> listed = list_checkpoints(path);
    ENSURE(!listed.empty(), path.string(), " has no ", kManifestName,
           " and no step-… directories: it is not a whole checkpoint");
    out.path_ = listed.back().path;
  }
  const Path manifest = out.path_ / kManifestName;
  regular_size(manifest);
  out.manifest_ = parse_manifest(read_file(manifest, kMaxManifest), manifest.string());
  const Path name = std::filesystem::absolute(out.path_).lexically_normal();
  const auto step =
      parse_step_name((name.has_filename() ? name : name.parent_path()).filename().string());
  ENSURE(!step || *step == out.manifest_.step, manifest.string(), " is of step ",
         out.manifest_.step, ", not ", step.value_or(0));
  check_files(out.path_, out.manifest_);
  return out;
}

const MappedFile& Checkpoint::mapped(const std::string& file) const {
  std::unique_ptr<MappedFile>& slot = mapped_[file];
  if (!slot) slot = std::make_unique<MappedFile>(path_ / file);
  const auto stored = std::ranges::lower_bound(manifest_.files, file, {}, &StoredFile::name);
  ENSURE(slot->size() == stored->bytes, (path_ / file).string(), " has ", slot->size(),
         " bytes, not ", stored->bytes, ": it was changed while it was open");
  return *slot;
}

void Checkpoint::verify() const {
  for (const StoredFile& file : manifest_.files) {
    const MappedFile bytes(path_ / file.name);
    ENSURE(bytes.size() == file.bytes, (path_ / file.name).string(), " has ", bytes.size(),
           " bytes, not ", file.bytes);
    ENSURE(checksum_of(bytes.bytes()) == file.checksum, (path_ / file.name).string(), " is damaged",
           damaged_tensor(manifest_, bytes, file.name),
           ": its checksum is not the one it was written with");
    if (file.name.ends_with(".safetensors")) check_header(manifest_, path_ / file.name, file.name);
  }
}

void Checkpoint::read(std::string_view name, const Tensor& destination) const {
  const StoredTensor* t = manifest_.find(name);
  ENSURE(t != nullptr, path_.string(), " has no tensor ", in_quotes(name), " among its ",
         manifest_.tensors.size());
  check_destination(*t, destination, path_.string());
  const auto bytes = mapped(t->file).bytes().subspan(static_cast<std::size_t>(t->offset),
                                                     static_cast<std::size_t>(t->bytes));
  if (!bytes.empty()) memcpy(destination.raw(), bytes.data(), bytes.size());
  ENSURE(checksum_of(bytes_of(destination)) == t->checksum, (path_ / t->file).string(),
         " is damaged, in tensor ", in_quotes(t->name),
         ": its checksum is not the one it was written with");
}

Newest newest_valid(const Path& directory) {
  Newest out;
  std::vector<Listed> listed = list_checkpoints(directory);
  for (; !listed.empty() && !out.checkpoint; listed.pop_back()) {
    try {
      Checkpoint candidate = Checkpoint::open(listed.back().path);
      candidate.verify();
      out.checkpoint = std::move(candidate);
    } catch (const Error& e) {
      out.passed_over.push_back(listed.back().path.string() + ": " + e.what());
    }
  }
  return out;
}

}  // namespace chimera::checkpoint
