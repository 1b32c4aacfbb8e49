#pragma once
#include <string>
#include <vector>

#include "chimera/base/json.h"
#include "chimera/setup/config_check.h"
#include "chimera/setup/config_fields.h"

namespace chimera {

// Puts a JSON value into the field's target; a wrong type or a value out of range is a problem.
void read_field(const Field& field, const Json& value, std::vector<ConfigProblem>& problems);

// The one of `known` that takes the fewest changes of a letter; empty for none.
std::string nearest(const std::string& word, const std::vector<std::string>& known);
std::string joined(const std::vector<std::string>& words);  // "a, b, c"

}  // namespace chimera
