#pragma once
#include "chimera/setup/config.h"

namespace chimera {
class Worker;
}

namespace chimera::train {

// Floating-point operations per second of all that the run computes on, measured by this worker
// alone for a moment: what MFU is relative to. On CPUs multiply-adds of the cores in use; on GPUs
// the best square product in the type of computation.
double measured_peak(const Config& config, Worker& worker);

}  // namespace chimera::train
