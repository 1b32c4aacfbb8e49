#pragma once
// Configurations as text: read, written back, explained.
#include <string>
#include <vector>

#include "chimera/base/json.h"
#include "chimera/setup/config.h"

namespace chimera {

// Reads a configuration from JSON text with // comments, then `overrides` ("a.b=value"). Collects
// every unknown key, wrong type, value out of range and impossible combination and throws one
// UsageError that lists them all, each with path, value and way out.
Config parse_config(const std::string& text, const std::string& name,
                    const std::vector<std::string>& overrides);
Config load_config(const std::string& path, const std::vector<std::string>& overrides);

// The resolved configuration: every key, presets written out; parse_config reads it back to the
// same values.
Json config_to_json(const Config& config);
// A Markdown table of every key: default, accepted values, meaning.
std::string explain_config();

}  // namespace chimera
