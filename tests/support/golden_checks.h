#pragma once
// A run of a reference model in fp32 against PyTorch's float64 values.
#include "support/golden.h"

namespace chimera::test {

// Every gradient of the first step. `prefix` is "smoothed." where the loss was.
void check_gradients(const GoldenModel& model, const Outcome& outcome, const std::string& prefix);
// Losses, norms and rates of every step, and the parameters after the last.
void check_curve(const GoldenModel& model, const std::string& run, const Outcome& outcome);

}  // namespace chimera::test
