#include "chimera/setup/config.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "chimera/base/file.h"

namespace chimera {
namespace {

using Errors = std::vector<std::string>;

constexpr Index kMaxConfigBytes = Index{16} << 20;

// Letters to change to turn one word into the other.
std::size_t distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j)
      diagonal = std::exchange(
          row[j], std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])}));
  }
  return row[b.size()];
}

std::string nearest(const std::string& word, const std::vector<std::string>& known) {
  const auto best =
      std::ranges::min_element(known, {}, [&](const std::string& k) { return distance(word, k); });
  return best == known.end() ? "" : *best;
}

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : ", ") + word;
  return out;
}

std::string accepted_numbers(const Field& field) {
  return field.least == field.most ? concat(field.least, " in this version")
                                   : concat("between ", field.least, " and ", field.most);
}

// Puts one JSON value into one field; problems go to `errors`.
struct Setter {
  const Field& field;
  const Json& value;
  Errors& errors;

  void wrong(const std::string& expected) const {
    errors.push_back(concat(field.path, " is ", value.dump(), "; it must be ", expected));
  }
  bool in_range(double v) const {
    if (std::isfinite(v) && v >= field.least && v <= field.most) return true;
    wrong(accepted_numbers(field));
    return false;
  }
  void operator()(Index* target) const {
    if (!value.is_number_integer()) return wrong("a whole number");
    if (in_range(value.get<double>())) *target = value.get<Index>();
  }
  void operator()(int* target) const {
    Index number = *target;
    (*this)(&number);
    *target = narrow<int>(number);
  }
  void operator()(double* target) const {
    if (!value.is_number()) return wrong("a number");
    if (in_range(value.get<double>())) *target = value.get<double>();
  }
  void operator()(bool* target) const {
    if (!value.is_boolean()) return wrong("true or false");
    *target = value.get<bool>();
  }
  void operator()(std::string* target) const {
    const bool optional = field.choices.empty() || field.path == "model.preset";
    if (value.is_null() && optional) return void(target->clear());
    // A number where a word may stand as well; --set gives it without quotes.
    if (value.is_number() && field.path == "precision.loss_scale")
      return void(*target = value.dump());
    if (!value.is_string()) return wrong("text in double quotes");
    const auto text = value.get<std::string>();
    if (!(text.empty() && optional) && !field.choices.empty() &&
        std::ranges::count(field.choices, text) == 0)
      return wrong(field.choices.size() == 1
                       ? concat(field.choices.front(), " in this version")
                       : concat("one of ", joined(field.choices),
                                " (nearest: ", nearest(text, field.choices), ")"));
    *target = text;
  }
  void operator()(std::vector<std::string>* target) const {
    std::vector<std::string> out;
    if (value.is_string())
      out.push_back(value.get<std::string>());
    else if (!value.is_array())
      return wrong("a list of paths");
    else
      for (const Json& item : value) {
        if (!item.is_string()) return wrong("a list of paths");
        out.push_back(item.get<std::string>());
      }
    *target = out;
  }
  void operator()(std::vector<Index>* target) const {
    if (value.is_string() && value.get<std::string>() == "auto") return target->clear();
    if (!value.is_array()) return wrong("a list of whole numbers, or \"auto\" for stage_layers");
    std::vector<Index> out;
    for (const Json& item : value) {
      if (!item.is_number_integer() || item.get<double>() < 0 || item.get<double>() > field.most)
        return wrong("a list of whole numbers from 0 on");
      out.push_back(item.get<Index>());
    }
    *target = out;
  }
  void operator()(std::vector<DataSource>* target) const {
    const char* expected = "a list of paths, or of {\"files\": [...], \"weight\": number above 0}";
    std::vector<DataSource> out;
    const bool objects = value.is_array() && !value.empty() && value.front().is_object();
    if (!objects) {
      std::vector<std::string> files;
      const std::size_t before = errors.size();
      (*this)(&files);
      if (errors.size() == before && !files.empty()) out.push_back({files, 1});
      *target = out;
      return;
    }
    for (const Json& item : value) {
      const bool shaped = item.is_object() && item.contains("files") && item.contains("weight") &&
                          item.size() == 2 && item["files"].is_array() &&
                          item["weight"].is_number() && item["weight"].get<double>() > 0;
      if (!shaped) return wrong(expected);
      DataSource source{{}, item["weight"].get<double>()};
      for (const Json& file : item["files"]) {
        if (!file.is_string()) return wrong(expected);
        source.files.push_back(file.get<std::string>());
      }
      out.push_back(source);
    }
    *target = out;
  }
};

const Field* find_field(const std::vector<Field>& fields, const std::string& path) {
  const auto found = std::ranges::find(fields, path, &Field::path);
  return found == fields.end() ? nullptr : &*found;
}

void report_unknown(const std::vector<Field>& fields, const std::string& path, const Json& value,
                    Errors& errors) {
  std::vector<std::string> known;
  for (const Field& f : fields) known.push_back(f.path);
  errors.push_back(concat("unknown key ", path.substr(0, 80), " (value ",
                          value.dump().substr(0, 80), "); the nearest known key is ",
                          nearest(path, known)));
}

void apply(const std::vector<Field>& fields, const Json& root, Errors& errors,
           std::vector<std::string>& failed) {
  if (!root.is_object()) return errors.push_back("the configuration must be a JSON object { ... }");
  for (const auto& [section, values] : root.items()) {
    const bool known = std::ranges::any_of(
        fields, [&](const Field& f) { return f.path.starts_with(section + "."); });
    if (!known || !values.is_object()) {
      if (known)
        errors.push_back(
            concat(section, " is ", values.dump().substr(0, 80), "; it must be an object { ... }"));
      else
        report_unknown(fields, section, values, errors);
      continue;
    }
    for (const auto& [key, value] : values.items()) {
      const std::string path = section + "." + key;
      const Field* field = find_field(fields, path);
      if (field == nullptr) {
        report_unknown(fields, path, value, errors);
        continue;
      }
      const std::size_t before = errors.size();
      std::visit(Setter{*field, value, errors}, field->target);
      if (errors.size() > before) failed.push_back(path);
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
void override_key(Json& root, const std::string& text, Errors& errors) {
  const auto equals = text.find('='), dot = text.find('.');
  if (equals == std::string::npos || dot == std::string::npos || dot > equals)
    return errors.push_back(concat("--set ", text, " must have the form section.key=value"));
  const std::string section = text.substr(0, dot), key = text.substr(dot + 1, equals - dot - 1),
                    value = text.substr(equals + 1);
  if (!is_utf8(text)) return errors.push_back("a --set is not UTF-8 text; paths must be, too");
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
  if (preset == nullptr) return;  // reported with the field's choices
  config.model.n_layer = preset->n_layer;
  config.model.n_head = preset->n_head;
  config.model.n_embd = preset->n_embd;
  config.model.n_positions = preset->n_positions;
  config.model.vocab_size = preset->vocab_size;
  config.model.tied_embeddings = preset->tied_embeddings;
}

// Whether a combination is impossible only because one of its keys was not understood.
bool concerns(const std::string& problem, const std::vector<std::string>& failed) {
  return std::ranges::any_of(failed, [&](const std::string& path) {
    const auto at = problem.find(path);
    return at != std::string::npos &&
           !std::isalnum(static_cast<unsigned char>(problem[at + path.size()])) &&
           problem[at + path.size()] != '_';
  });
}

[[noreturn]] void refuse(const std::string& name, const Errors& errors) {
  std::string message =
      concat(name, ": ", errors.size(), errors.size() == 1 ? " problem" : " problems");
  for (const std::string& error : errors) message += "\n  " + error;
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
  Errors errors;
  if (root.is_object())
    for (const std::string& text_override : overrides) override_key(root, text_override, errors);
  Config config;
  if (root.is_object()) apply_preset(config, root);
  std::vector<std::string> failed;
  apply(config_fields(config), root, errors, failed);
  for (const std::string& problem : check_config(config))
    if (!concerns(problem, failed)) errors.push_back(problem);
  if (!errors.empty()) refuse(name, errors);
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
    const auto dot = field.path.find('.');
    Json& out = root[field.path.substr(0, dot)][field.path.substr(dot + 1)];
    std::visit([&](const auto* target) { write(out, target); }, field.target);
    if (field.path == "parallel.stage_layers" && out.empty()) out = "auto";
    if (field.path == "train.init_from" && config.train.init_from.empty()) out = nullptr;
    if (field.path == "model.preset" && config.preset.empty()) out = nullptr;
  }
  return root;
}

std::string explain_config() {
  Config defaults;
  const Json values = config_to_json(defaults);
  std::string out = "| key | default | accepted | meaning |\n|---|---|---|---|\n";
  for (const Field& field : config_fields(defaults)) {
    const auto dot = field.path.find('.');
    const Json& value = values[field.path.substr(0, dot)][field.path.substr(dot + 1)];
    const bool number = std::holds_alternative<Index*>(field.target) ||
                        std::holds_alternative<int*>(field.target) ||
                        std::holds_alternative<double*>(field.target);
    std::string accepted = joined(field.choices);
    if (number)
      accepted = field.least == field.most ? accepted_numbers(field)
                                           : concat(field.least, " to ", field.most);
    if (field.choices.size() == 1) accepted += " in this version";
    out += concat("| `", field.path, "` | `", field.required ? "required" : value.dump(), "` | ",
                  accepted, " | ", field.meaning, " |\n");
  }
  return out;
}

}  // namespace chimera
