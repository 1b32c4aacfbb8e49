#pragma once
#include "chimera/setup/config.h"

namespace chimera::cli {

// To standard output: a line per worker of the first replica; those of others need as much, but for
// shares of what is cut among all (ZeRO, the chunks of a sum).
void print_memory(const Config& config);

// The same, and whether the configuration's workers fit on `devices` (0: one per worker) of
// `bytes` each, with the changes that would where they do not; then throws Error.
void check_memory_of(const Config& config, Index devices, Index bytes);

}  // namespace chimera::cli
