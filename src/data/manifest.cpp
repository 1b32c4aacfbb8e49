#include "chimera/data/manifest.h"

#include <initializer_list>
#include <nlohmann/json.hpp>

#include "chimera/base/json.h"

namespace chimera::data {
namespace {

constexpr const char* kFormat = "chimera-dataset";
constexpr Index kVersion = 1;

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

// Reads the members of one JSON object, all of them, and no others.
class Members {
 public:
  Members(const Json& json, std::string where) : json_(json), where_(std::move(where)) {
    ENSURE(json.is_object(), where_, " is not an object");
  }
  const Json& at(const char* key) {
    const auto found = json_.find(key);
    ENSURE(found != json_.end(), where_, " has no \"", key, "\"");
    ++read_;
    return *found;
  }
  std::string text(const char* key) {
    const Json& value = at(key);
    ENSURE(value.is_string(), where_, ".", key, " is not a string");
    return value.get<std::string>();
  }
  Index count(const char* key) {
    const Json& value = at(key);
    ENSURE(value.is_number_unsigned() && value.get<std::uint64_t>() <= std::uint64_t{1} << 62,
           where_, ".", key, " is not a count");
    return value.get<Index>();
  }
  double number(const char* key) {
    const Json& value = at(key);
    ENSURE(value.is_number(), where_, ".", key, " is not a number");
    return value.get<double>();
  }
  Members object(const char* key) { return {at(key), where_ + "." + key}; }
  template <class Visit>
  void each(const char* key, const Visit& visit) {
    const Json& list = at(key);
    ENSURE(list.is_array(), where_, ".", key, " is not a list");
    for (std::size_t i = 0; i < list.size(); ++i) {
      Members element(list[i], concat(where_, ".", key, "[", i, "]"));
      visit(element);
    }
  }
  // One of the names; returns its place among them.
  std::size_t choice(const char* key, std::initializer_list<std::string> names) {
    const std::string value = text(key);
    std::size_t place = 0;
    for (const std::string& name : names) {
      if (name == value) return place;
      ++place;
    }
    Fail(where_, ".", key, " is \"", value, "\", which this program does not know");
  }
  void done() const {
    ENSURE(read_ == json_.size(), where_, " has ", json_.size(), " members; ", read_, " are known");
  }

 private:
  const Json& json_;
  std::string where_;
  std::size_t read_ = 0;
};

ShardInfo read_shard(Members& in) {
  ShardInfo shard{in.text("name"), in.count("tokens"), in.count("bytes"), in.text("checksum")};
  in.done();
  ENSURE(
      !shard.name.empty() && shard.name.find('/') == std::string::npos && shard.name.front() != '.',
      "dataset.json names the shard \"", shard.name, "\", which is no plain file name");
  return shard;
}

SplitInfo read_split(Members in) {
  SplitInfo split{in.count("documents"),
                  in.count("tokens"),
                  in.count("text_bytes"),
                  in.count("not_utf8_bytes"),
                  {}};
  in.each("shards", [&](Members& shard) { split.shards.push_back(read_shard(shard)); });
  in.done();
  return split;
}

SourceInfo read_source(Members& in) {
  SourceInfo source{in.text("path"), in.count("file_bytes"), in.count("text_bytes"),
                    in.count("documents")};
  in.done();
  return source;
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
      {"format", kFormat},
      {"version", kVersion},
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
  const Json json = read_json(file.string());
  Members in(json, file.string());
  ENSURE(in.text("format") == kFormat, file.string(), " is no description of a data set");
  ENSURE(in.count("version") == kVersion, file.string(), " has version ",
         json["version"].get<Index>(), "; this program reads ", kVersion,
         ": prepare the data again");
  DatasetManifest m;
  Members tokenizer = in.object("tokenizer");
  m.tokenizer_fingerprint = tokenizer.text("fingerprint");
  m.vocabulary_size = tokenizer.count("vocabulary_size");
  tokenizer.done();
  Members end_of_text = in.object("end_of_text");
  m.end_of_text_id = end_of_text.count("id");
  m.end_of_text = end_of_text.choice("position", {"after", "before"}) == 0 ? EndOfText::After
                                                                           : EndOfText::Before;
  end_of_text.done();
  m.width = in.choice("token_type", {"uint16", "uint32"}) == 0 ? TokenWidth::U16 : TokenWidth::U32;
  m.validation_fraction = in.number("validation_fraction");
  m.train = read_split(in.object("train"));
  m.validation = read_split(in.object("validation"));
  in.each("sources", [&](Members& source) { m.sources.push_back(read_source(source)); });
  in.done();
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
