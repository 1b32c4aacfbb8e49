#include "chimera/checkpoint/manifest.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "chimera/base/json_reader.h"
#include "model_json.h"
#include "tables.h"

namespace chimera::checkpoint {
namespace {

constexpr std::string_view kFormat = "chimera-checkpoint";
constexpr std::string_view kSealBegin = ",\n\"checksum\": \"", kSealEnd = "\"\n}\n";
constexpr std::size_t kSealDigits = 32;

std::string line(const std::string& key, const Json& value) {
  return Json(key).dump() + ": " + value.dump() + ",\n";
}

Json object_of(const std::string& text, const char* what) {
  Json object = parse_json(text, std::string("the manifest's ") + what);
  ENSURE(object.is_object(), "the manifest's ", what, " is not a JSON object");
  return object;
}

// The text that the seal's checksum covers; throws unless seal and text agree.
std::string_view check_seal(std::string_view text, const std::string& name) {
  constexpr std::size_t kSealed = kSealBegin.size() + kSealDigits + kSealEnd.size();
  const bool shaped = text.size() > kSealed && text.ends_with(kSealEnd) &&
                      text.substr(text.size() - kSealed).starts_with(kSealBegin);
  ENSURE(shaped, name, " is damaged: it does not end with its checksum");
  const std::string_view body = text.substr(0, text.size() - kSealed);
  const std::string_view stored =
      text.substr(text.size() - kSealEnd.size() - kSealDigits).substr(0, kSealDigits);
  ENSURE(checksum_of(std::as_bytes(std::span(body))) == stored, name,
         " is damaged (or was edited): its text does not have its checksum");
  return body;
}

void check_format(const Json& json, const std::string& name) {
  const JsonReader fields(json, name);
  const std::string format = fields["format"].text();
  ENSURE(format == kFormat, name, ": format is ", in_quotes(format), ", not ", kFormat);
  const Index version = fields["version"].count(1);
  ENSURE(version <= kManifestVersion, name, " has format version ", version,
         "; this build reads up to ", kManifestVersion, ": use the newer chimera that wrote it");
}

}  // namespace

const StoredTensor* Manifest::find(std::string_view name) const {
  const auto found = std::ranges::lower_bound(
      tensors, name, {}, [](const StoredTensor& t) { return std::string_view(t.name); });
  return found != tensors.end() && found->name == name ? &*found : nullptr;
}

Index Manifest::total_bytes() const {
  Index total = 0;
  for (const StoredFile& file : files) total = checked_add(total, file.bytes);
  return total;
}

std::string seal(std::string_view object) {
  const std::size_t end = object.find_last_of('}');
  ENSURE(end != object.npos, "only a JSON object can be sealed");
  std::string body(object.substr(0, end));
  while (!body.empty() && (body.back() == '\n' || body.back() == ' ')) body.pop_back();
  const std::string digest = checksum_of(std::as_bytes(std::span(body)));
  return body.append(kSealBegin).append(digest).append(kSealEnd);
}

std::string to_text(const Manifest& m) {
  std::string out =
      "{\n" + line("format", kFormat) + line("version", kManifestVersion) + line("step", m.step) +
      line("consumed_samples", m.consumed_samples) + line("model", to_json(m.model)) +
      line("end_of_text", m.end_of_text) + line("config", object_of(m.config, "config")) +
      line("state", object_of(m.state, "state")) + line("environment", m.environment) +
      line("data_fingerprint", m.data_fingerprint) +
      line("tokenizer_fingerprint", m.tokenizer_fingerprint);
  out += "\"files\": [";
  for (std::size_t i = 0; i < m.files.size(); ++i)
    out += (i ? ",\n  " : "\n  ") + to_json(m.files[i]).dump();
  out += "],\n\"tensors\": {";
  for (std::size_t i = 0; i < m.tensors.size(); ++i)
    out += (i ? ",\n  " : "\n  ") + Json(m.tensors[i].name).dump() + ": " +
           to_json(m.tensors[i]).dump();
  return seal(out + "}}");
}

Manifest parse_manifest(std::string_view text, const std::string& name) {
  const Json json = parse_json(text, name);
  check_format(json, name);  // first: a newer version may be sealed otherwise
  check_seal(text, name);
  const JsonReader fields(json, name);
  fields.only({"format", "version", "step", "consumed_samples", "model", "end_of_text", "config",
               "state", "environment", "data_fingerprint", "tokenizer_fingerprint", "files",
               "tensors", "checksum"});
  Manifest m;
  m.step = fields["step"].count();
  m.consumed_samples = fields["consumed_samples"].count();
  m.model = parse_model(fields["model"]);
  m.end_of_text = fields["end_of_text"].count(-1, m.model.vocab_size - 1);
  m.config = fields["config"].object_text();
  m.state = fields["state"].object_text();
  for (const auto& [key, value] : fields["environment"].members())
    m.environment[key] = value.text();
  m.data_fingerprint = fields["data_fingerprint"].text();
  m.tokenizer_fingerprint = fields["tokenizer_fingerprint"].text();
  m.files = parse_files(fields["files"]);
  m.tensors = parse_tensors(fields["tensors"]);
  check_tables(m.files, m.tensors, name);
  return m;
}

void check_file_name(const std::string& file, const std::string& where) {
  constexpr std::string_view kFolder = "tokenizer/";
  std::string_view base = file;
  if (base.starts_with(kFolder)) base.remove_prefix(kFolder.size());
  const bool plain = !base.empty() && base.size() <= 200 && base.front() != '.' &&
                     std::ranges::all_of(base, [](char c) {
                       return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
                              (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
                     });
  ENSURE(plain && file != kManifestName && file != "tokenizer", where, ": the file name ",
         in_quotes(file), " is not allowed; names consist of letters, digits, '.', '_' and '-'");
}

std::string to_record(const Shard& shard) {
  Json record = {{"files", Json::array()}, {"tensors", Json::object()}};
  for (const StoredFile& file : shard.files) record["files"].push_back(to_json(file));
  for (const StoredTensor& tensor : shard.tensors) record["tensors"][tensor.name] = to_json(tensor);
  return record.dump();
}

Shard parse_record(std::string_view record) {
  const std::string name = "the record of a writing worker";
  const Json json = parse_json(record, name);
  const JsonReader fields(json, name);
  fields.only({"files", "tensors"});
  Shard shard;
  shard.files = parse_files(fields["files"]);
  shard.tensors = parse_tensors(fields["tensors"]);
  return shard;
}

}  // namespace chimera::checkpoint
