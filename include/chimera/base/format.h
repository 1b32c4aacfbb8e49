#pragma once
// Numbers as people read them.
#include <string>

#include "chimera/base/types.h"

namespace chimera {

// As printf writes it.
[[gnu::format(printf, 1, 2)]] std::string format(const char* pattern, ...);

std::string human_bytes(Index bytes, int decimals = 1);  // "12.3 MiB"
std::string human_count(double value);                   // "83.1k"
std::string human_seconds(double seconds);               // "3m12s"
std::string percent(double share, int decimals = 1);     // "20.0 %"

}  // namespace chimera
