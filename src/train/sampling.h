#pragma once
// A sample of text in the middle of training.
#include <cstdint>
#include <string>

#include "chimera/setup/config.h"

namespace chimera {
class Worker;
}

namespace chimera::train {

// Collective. Rank 0 gathers the weights into a decoder of its own and continues an empty prompt;
// the other ranks return an empty text.
std::string sample_text(Worker& worker, const Config& config, std::uint64_t seed);

}  // namespace chimera::train
