#pragma once
#include <string>

#include "chimera/base/types.h"

namespace chimera::cli {

// "1,389,327,360".
inline std::string grouped(Index value) {
  std::string digits = std::to_string(value);
  for (std::size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, ",");
  return digits;
}

}  // namespace chimera::cli
