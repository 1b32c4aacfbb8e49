#pragma once
#include <string>

#include "chimera/base/json_reader.h"
#include "chimera/model/config.h"

namespace chimera::checkpoint {

// The manifest's "model": the names of model::ModelConfig, which are Hugging Face's.
Json to_json(const model::ModelConfig& model);
// Throws on missing, unknown or impossible values; sizes that pass cannot overflow when multiplied.
model::ModelConfig parse_model(const JsonReader& object);

}  // namespace chimera::checkpoint
