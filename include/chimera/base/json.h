#pragma once
// Strict reading of JSON text: bounded size and depth, no duplicate keys, no trailing bytes, and
// every problem reported with its path. Include <nlohmann/json.hpp> itself only in source files.
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "chimera/base/types.h"

namespace chimera {

using Json = nlohmann::ordered_json;

// Parses text; `name` (a file name) begins every message. `//` comments are allowed where
// `comments`. Throws Error on syntax errors (with line and column), duplicate keys, depth over 64.
enum class JsonComments { Refuse, Allow };
Json parse_json(std::string_view text, const std::string& name,
                JsonComments comments = JsonComments::Refuse);

// Reads and parses a file of at most 16 MiB.
Json read_json(const std::string& path, JsonComments comments = JsonComments::Refuse);

}  // namespace chimera
