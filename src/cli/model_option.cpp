#include "model_option.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "chimera/setup/config_file.h"

namespace chimera::cli {

Config model_option(const std::string& name, Index sequence) {
  Json model;
  if (model::find_preset(name) != nullptr) {
    model["model"]["preset"] = name;
  } else {
    if (!std::filesystem::exists(name)) {
      std::string known;
      for (const model::Preset& preset : model::presets())
        known += concat(known.empty() ? "" : ", ", preset.name);
      FailUsage("--model ", name, " is neither a file nor one of ", known);
    }
    const Json file = read_json(name, JsonComments::Allow);
    if (!file.is_object() || !file.contains("model"))
      FailUsage(name, " has no section \"model\"; see configs/models");
    model["model"] = file["model"];
    if (file.contains("data") && file["data"].is_object() &&
        file["data"].contains("sequence_length"))
      model["data"]["sequence_length"] = file["data"]["sequence_length"];
  }
  if (sequence > 0) model["data"]["sequence_length"] = sequence;
  // What a run needs beside the model, so that the model alone is checked.
  model["data"]["train"] = Json::array({"train-*.bin"});
  model["train"]["steps"] = 1;
  Config config = parse_config(model.dump(), name, {});
  config.data.train.clear();
  config.train.steps = 0;
  return config;
}

}  // namespace chimera::cli
