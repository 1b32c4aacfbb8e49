#include "chimera/setup/config_file.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "chimera/base/file.h"
#include "field_reader.h"

namespace chimera {
namespace {

using Problems = std::vector<ConfigProblem>;

constexpr Index kMaxConfigBytes = Index{16} << 20;

const Field* find_field(const std::vector<Field>& fields, const std::string& path) {
  const auto found = std::ranges::find(fields, path, &Field::path);
  return found == fields.end() ? nullptr : &*found;
}

void report_unknown(const std::vector<Field>& fields, const std::string& path, const Json& value,
                    Problems& problems) {
  std::vector<std::string> known;
  for (const Field& f : fields) known.push_back(f.path);
  problems.push_back(
      {{path},
       concat("unknown key ", path.substr(0, 80), " (value ", value.dump().substr(0, 80),
              "); the nearest known key is ", nearest(path, known))});
}

void apply(const std::vector<Field>& fields, const Json& root, Problems& problems) {
  if (!root.is_object())
    return problems.push_back({{}, "the configuration must be a JSON object { ... }"});
  for (const auto& [section, values] : root.items()) {
    const bool known = std::ranges::any_of(
        fields, [&](const Field& f) { return f.path.starts_with(section + "."); });
    if (!known) {
      report_unknown(fields, section, values, problems);
      continue;
    }
    if (!values.is_object()) {
      problems.push_back(
          {{},
           concat(section, " is ", values.dump().substr(0, 80), "; it must be an object { ... }")});
      continue;
    }
    for (const auto& [key, value] : values.items()) {
      const std::string path = section + "." + key;
      if (const Field* field = find_field(fields, path))
        read_field(*field, value, problems);
      else
        report_unknown(fields, path, value, problems);
    }
  }
}

bool is_utf8(const std::string& text) {
  try {
    (void)Json(text).dump();
    return true;
  } catch (const Json::exception&) {
    return false;
  }
}

// "a.b=value" into `root`; the value is JSON, or else text.
void override_key(Json& root, const std::string& text, Problems& problems) {
  const auto equals = text.find('='), dot = text.find('.');
  if (equals == std::string::npos || dot == std::string::npos || dot > equals)
    return problems.push_back(
        {{}, concat("--set ", text, " must have the form section.key=value")});
  const std::string section = text.substr(0, dot), key = text.substr(dot + 1, equals - dot - 1),
                    value = text.substr(equals + 1);
  if (!is_utf8(text))
    return problems.push_back({{}, "a --set is not UTF-8 text; paths must be, too"});
  Json parsed = Json::parse(value, nullptr, /*allow_exceptions=*/false);
  if (parsed.is_discarded()) parsed = value;
  if (!root[section].is_object()) root[section] = Json::object();
  root[section][key] = parsed;
}

void apply_preset(Config& config, const Json& root) {
  const auto model = root.find("model");
  if (model == root.end() || !model->is_object() || !model->contains("preset") ||
      !(*model)["preset"].is_string())
    return;
  const model::Preset* preset = model::find_preset((*model)["preset"].get<std::string>());
  // An unknown one is reported with the field's choices.
  if (preset != nullptr) model::apply_preset(config.model, *preset);
}

// Whether a combination is impossible only because one of its keys was not understood.
bool follows_from(const ConfigProblem& problem, const Problems& read) {
  return std::ranges::any_of(read, [&](const ConfigProblem& before) {
    return !before.keys.empty() && std::ranges::count(problem.keys, before.keys.front()) > 0;
  });
}

[[noreturn]] void refuse(const std::string& name, const Problems& problems) {
  std::string message =
      concat(name, ": ", problems.size(), problems.size() == 1 ? " problem" : " problems");
  for (const ConfigProblem& problem : problems) message += "\n  " + problem.text;
  throw UsageError(message);
}

}  // namespace

Config parse_config(const std::string& text, const std::string& name,
                    const std::vector<std::string>& overrides) {
  Json root;
  try {
    root = parse_json(text, name, JsonComments::Allow);
  } catch (const Error& e) {
    throw UsageError(e.what());
  }
  Problems problems;
  if (root.is_object())
    for (const std::string& text_override : overrides) override_key(root, text_override, problems);
  Config config;
  if (root.is_object()) apply_preset(config, root);
  apply(config_fields(config), root, problems);
  const Problems read = problems;
  for (const ConfigProblem& problem : check_config(config))
    if (!follows_from(problem, read)) problems.push_back(problem);
  if (!problems.empty()) refuse(name, problems);
  return config;
}

Config load_config(const std::string& path, const std::vector<std::string>& overrides) {
  std::string text;
  try {
    text = read_file(path, kMaxConfigBytes);
  } catch (const Error& e) {
    throw Error(e.what(), ExitCode::Usage);  // of this machine: not every rank need see it
  }
  return parse_config(text, path, overrides);
}

Json config_to_json(const Config& config) {
  Config copy = config;
  Json root = Json::object();
  const auto write = [](Json& out, const auto* target) {
    using T = std::remove_cvref_t<decltype(*target)>;
    if constexpr (std::is_same_v<T, std::vector<DataSource>>) {
      out = Json::array();
      for (const DataSource& source : *target)
        out.push_back({{"files", source.files}, {"weight", source.weight}});
    } else {
      out = *target;
    }
  };
  for (const Field& field : config_fields(copy)) {
    Json& out = root[Json::json_pointer(field.pointer())];
    std::visit([&](const auto* target) { write(out, target); }, field.target);
    if (!field.empty.empty() && (out == "" || out == Json::array())) out = Json::parse(field.empty);
  }
  return root;
}

std::string explain_config() {
  Config defaults;
  const Json values = config_to_json(defaults);
  std::string out = "| key | default | accepted | meaning |\n|---|---|---|---|\n";
  for (const Field& field : config_fields(defaults)) {
    const Json& value = values[Json::json_pointer(field.pointer())];
    const bool number = std::holds_alternative<Index*>(field.target) ||
                        std::holds_alternative<int*>(field.target) ||
                        std::holds_alternative<double*>(field.target);
    std::string accepted = joined(field.choices);
    if (number) accepted = concat(field.least, " to ", field.most);
    out += concat("| `", field.path, "` | `", field.required.empty() ? value.dump() : "required",
                  "` | ", accepted, " | ", field.meaning, " |\n");
  }
  return out;
}

}  // namespace chimera
