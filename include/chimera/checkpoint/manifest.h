#pragma once
// The manifest of a checkpoint: what it holds, where, and the checksums that prove it is whole. It
// is free of the layout that wrote it: a tensor is a tensor, whatever the depth and width.
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "chimera/checkpoint/safetensors.h"
#include "chimera/model/config.h"

namespace chimera::checkpoint {

inline constexpr const char* kManifestName = "manifest.json";
inline constexpr Index kManifestVersion = 1;
inline constexpr Index kMaxManifest = Index{16}
                                      << 20;  // bytes; larger ones are neither written nor read

struct StoredTensor : TensorEntry {
  std::string file;      // one of Manifest::files
  std::string checksum;  // of its bytes
};

struct StoredFile {
  std::string name;  // [A-Za-z0-9._-]+, or the same below "tokenizer/"
  Index bytes = 0;
  std::string checksum;
};

struct Manifest {
  // The caller's.
  Index step = 0;              // completed steps
  Index consumed_samples = 0;  // the data cursor
  model::ModelConfig model;
  Index end_of_text = -1;                          // token id for config.json; -1: none
  std::string config = "{}";                       // the resolved configuration: a JSON object
  std::string state = "{}";                        // further state of the trainer: a JSON object
  std::map<std::string, std::string> environment;  // layout, threads, ISA, versions, build
  std::string data_fingerprint, tokenizer_fingerprint;

  // Filled in by CheckpointWriter::commit. Sorted by name.
  std::vector<StoredTensor> tensors;
  std::vector<StoredFile> files;

  const StoredTensor* find(std::string_view name) const;  // nullptr where there is none
  Index total_bytes() const;                              // of all files, without the manifest
};

// The text of manifest.json: a JSON object whose last member is the checksum of the text before it.
std::string to_text(const Manifest& manifest);

// Reads that text. Strict: damaged (checksum), of a newer version, unknown or missing keys, wrong
// types, unsafe file names, tensors that lie outside their files or overlap are refused, and every
// message begins with `name`.
Manifest parse_manifest(std::string_view text, const std::string& name);

// A JSON object's text with its checksum as the last member.
std::string seal(std::string_view object);

// Throws unless `file` is a plain name, optionally below "tokenizer/": nothing leaves the
// directory.
void check_file_name(const std::string& file, const std::string& where);

// The pieces of a manifest that a writing worker hands to the committing one, and back.
struct Shard {
  std::vector<StoredTensor> tensors;
  std::vector<StoredFile> files;
};
std::string to_record(const Shard& shard);
Shard parse_record(std::string_view record);

}  // namespace chimera::checkpoint
