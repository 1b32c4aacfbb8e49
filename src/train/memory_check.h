#pragma once
#include "chimera/plan/footprint.h"
#include "chimera/train/worker.h"

namespace chimera::train {

// Throws where `ranks`, who share a GPU, need more than its `free_bytes`: with the table of the
// first of them, and the changes of the configuration that would fit.
void check_memory(const Config& config, const Programs& programs, const std::vector<int>& ranks,
                  Index free_bytes, const std::string& device);

}  // namespace chimera::train
