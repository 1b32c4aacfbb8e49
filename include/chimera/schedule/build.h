#pragma once
// From a request to a proved schedule.
#include "chimera/schedule/generate.h"
#include "chimera/schedule/lower.h"
#include "chimera/schedule/verify.h"

namespace chimera::schedule {

// Generated, lowered and verified.
Schedule build_schedule(const Request& request);

// Forwards of `micro_batches` micro-batches over the placement of `training`, for validation. Its
// messages need a channel class of their own; its buffers hold no more than the next message needs.
Schedule build_evaluation(const Schedule& training, int micro_batches);

}  // namespace chimera::schedule
