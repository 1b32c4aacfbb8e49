#include "chimera/data/manifest.h"

#include <nlohmann/json.hpp>

#include "chimera/base/json_reader.h"

namespace chimera::data {
namespace {

constexpr JsonFormat kFormat{"chimera-dataset", 1, "`chimera data prepare` writes one"};

Json to_json(const SplitInfo& split) {
  Json shards = Json::array();
  for (const ShardInfo& shard : split.shards)
    shards.push_back({{"name", shard.name},
                      {"tokens", shard.tokens},
                      {"bytes", shard.bytes},
                      {"checksum", shard.checksum}});
  return {{"documents", split.documents},
          {"tokens", split.tokens},
          {"text_bytes", split.bytes},
          {"not_utf8_bytes", split.not_utf8},
          {"shards", shards}};
}

constexpr Index kMostCount = Index{1} << 62;

ShardInfo read_shard(const JsonReader& in) {
  in.only({"name", "tokens", "bytes", "checksum"});
  ShardInfo shard{in["name"].text(), in["tokens"].count(0, kMostCount),
                  in["bytes"].count(0, kMostCount), in["checksum"].text()};
  ENSURE(
      !shard.name.empty() && shard.name.find('/') == std::string::npos && shard.name.front() != '.',
      in.where(), " names the shard ", in_quotes(shard.name), ", which is no plain file name");
  return shard;
}

SplitInfo read_split(const JsonReader& in) {
  in.only({"documents", "tokens", "text_bytes", "not_utf8_bytes", "shards"});
  SplitInfo split{in["documents"].count(0, kMostCount),
                  in["tokens"].count(0, kMostCount),
                  in["text_bytes"].count(0, kMostCount),
                  in["not_utf8_bytes"].count(0, kMostCount),
                  {}};
  for (const JsonReader& shard : in["shards"].list()) split.shards.push_back(read_shard(shard));
  return split;
}

SourceInfo read_source(const JsonReader& in) {
  in.only({"path", "file_bytes", "text_bytes", "documents"});
  return {in["path"].text(), in["file_bytes"].count(0, kMostCount),
          in["text_bytes"].count(0, kMostCount), in["documents"].count(0, kMostCount)};
}

const ShardInfo* find_shard(const DatasetManifest& manifest, const std::string& name) {
  for (const SplitInfo* split : {&manifest.train, &manifest.validation})
    for (const ShardInfo& shard : split->shards)
      if (shard.name == name) return &shard;
  return nullptr;
}

// JSON text is UTF-8; a file name need not be.
std::string printable(const std::string& path) {
  return Json::parse(Json(path).dump(-1, ' ', false, Json::error_handler_t::replace))
      .get<std::string>();
}

}  // namespace

std::string to_string(EndOfText position) {
  return position == EndOfText::After ? "after" : "before";
}

std::string manifest_text(const DatasetManifest& m) {
  Json sources = Json::array();
  for (const SourceInfo& source : m.sources)
    sources.push_back({{"path", printable(source.path)},
                       {"file_bytes", source.file_bytes},
                       {"text_bytes", source.text_bytes},
                       {"documents", source.documents}});
  const Json json = {
      {"format", kFormat.name},
      {"version", kFormat.version},
      {"tokenizer",
       {{"fingerprint", m.tokenizer_fingerprint}, {"vocabulary_size", m.vocabulary_size}}},
      {"end_of_text", {{"id", m.end_of_text_id}, {"position", to_string(m.end_of_text)}}},
      {"token_type", to_string(m.width)},
      {"validation_fraction", m.validation_fraction},
      {"train", to_json(m.train)},
      {"validation", to_json(m.validation)},
      {"sources", sources}};
  return json.dump(2) + "\n";
}

DatasetManifest read_manifest(const Path& file) {
  const std::string name = file.string();
  const Json json = read_json(name);
  const JsonReader in = open_format(json, name, kFormat);
  in.only({"format", "version", "tokenizer", "end_of_text", "token_type", "validation_fraction",
           "train", "validation", "sources"});
  const JsonReader tokenizer = in["tokenizer"], end_of_text = in["end_of_text"];
  tokenizer.only({"fingerprint", "vocabulary_size"});
  end_of_text.only({"id", "position"});
  DatasetManifest m;
  m.tokenizer_fingerprint = tokenizer["fingerprint"].text();
  m.vocabulary_size = tokenizer["vocabulary_size"].count(0, kMostCount);
  m.end_of_text_id = end_of_text["id"].count(0, kMostCount);
  m.end_of_text = end_of_text["position"].choice({"after", "before"}) == 0 ? EndOfText::After
                                                                           : EndOfText::Before;
  m.width = in["token_type"].choice({"uint16", "uint32"}) == 0 ? TokenWidth::U16 : TokenWidth::U32;
  m.validation_fraction = in["validation_fraction"].number({0, 1, ""});
  m.train = read_split(in["train"]);
  m.validation = read_split(in["validation"]);
  for (const JsonReader& source : in["sources"].list()) m.sources.push_back(read_source(source));
  return m;
}

std::optional<DatasetManifest> manifest_of(const Path& shard) {
  const Path file = shard.parent_path() / kManifestName;
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) return std::nullopt;
  DatasetManifest manifest = read_manifest(file);
  if (find_shard(manifest, shard.filename().string()) == nullptr) return std::nullopt;
  return manifest;
}

const ShardInfo& info_of(const DatasetManifest& manifest, const std::string& shard_name) {
  const ShardInfo* shard = find_shard(manifest, shard_name);
  ENSURE(shard != nullptr, "dataset.json does not list the shard ", shard_name);
  return *shard;
}

}  // namespace chimera::data
