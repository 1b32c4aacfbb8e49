#pragma once
#include <string>
#include <vector>

#include "chimera/setup/config.h"

namespace chimera {

// What is wrong with a configuration: the keys that it is about, and a line for people with path,
// value and way out.
struct ConfigProblem {
  std::vector<std::string> keys;  // full paths, the main one first; empty: of the whole
  std::string text;
};

// Impossible combinations; empty when all is well. (Part of parse_config.)
std::vector<ConfigProblem> check_config(const Config& config);

}  // namespace chimera
