#pragma once
// dataset.json, which `chimera data prepare` leaves beside the shards: what they hold, from what,
// by which tokenizer. Shards work without it; with it, a wrong tokenizer or a damaged shard is
// found, and losses can be given per byte of text.
#include <optional>
#include <string>
#include <vector>

#include "chimera/data/shard.h"

namespace chimera::data {

inline constexpr const char* kManifestName = "dataset.json";
inline constexpr const char* kTokenizerFolder = "tokenizer";

enum class EndOfText {
  After,
  Before
};  // where <|endoftext|> stands: at a document's end or its beginning
std::string to_string(EndOfText position);

struct SplitInfo {
  Index documents = 0;
  Index tokens = 0;  // with one <|endoftext|> per document
  Index bytes = 0;   // of text
  Index not_utf8 = 0;
  std::vector<ShardInfo> shards;
};

struct SourceInfo {
  std::string path;      // as given
  Index file_bytes = 0;  // on disk
  Index text_bytes = 0;
  Index documents = 0;
};

struct DatasetManifest {
  std::string tokenizer_fingerprint;
  Index vocabulary_size = 0;
  Index end_of_text_id = 0;
  EndOfText end_of_text = EndOfText::After;
  TokenWidth width = TokenWidth::U16;
  double validation_fraction = 0;
  SplitInfo train, validation;
  std::vector<SourceInfo> sources;
};

std::string manifest_text(const DatasetManifest& manifest);

// Strict: unknown or missing keys, wrong types and names that leave the folder are errors.
DatasetManifest read_manifest(const Path& file);

// The manifest in the folder of this shard when there is one and it lists the shard.
std::optional<DatasetManifest> manifest_of(const Path& shard);

// The shard's line in the manifest; throws when it is not listed.
const ShardInfo& info_of(const DatasetManifest& manifest, const std::string& shard_name);

}  // namespace chimera::data
