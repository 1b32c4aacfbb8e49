#pragma once
#include "chimera/plan/footprint.h"
#include "chimera/setup/programs.h"

namespace chimera {

// Bytes that `ranks` need together on a device they share, with a reserve for what kernels make;
// `all`: footprints() of the run.
Index memory_needed(const std::vector<plan::WorkerFootprint>& all, const std::vector<int>& ranks);

// The changes of the configuration with which `ranks` would need at most `bytes`, a line each; or
// what to do where none does.
std::string what_would_fit(const Config& config, const std::vector<int>& ranks, Index bytes);

// Throws where `ranks`, who share a GPU, need more than its `free_bytes`: with the table of the
// first of them, and the changes of the configuration that would fit.
void check_memory(const Config& config, const Programs& programs, const std::vector<int>& ranks,
                  Index free_bytes, const std::string& device);

}  // namespace chimera
