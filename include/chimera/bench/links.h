#pragma once
// What messages and reductions between workers cost.
#include "chimera/comm/communicator.h"
#include "chimera/plan/calibration.h"

namespace chimera::bench {

// Called by every rank; sizes from 256 bytes by fours, the median of many rounds each. The result
// counts on rank 0, with alpha and beta fitted.
plan::MeasuredLink measure_messages(Communicator& comm,
                                    Index most_bytes);  // ranks 0 and 1, one way
plan::MeasuredLink measure_reductions(Communicator& comm, Index most_bytes);

}  // namespace chimera::bench
