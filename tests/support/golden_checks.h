#pragma once
// A run of a reference model against PyTorch's float64 values.
#include "support/golden.h"

namespace chimera::test {

// The keys' bias has a gradient of zero in exact arithmetic (a constant added to all scores of a
// row), so Adam turns its rounding noise into full steps: only the sum of the learning rates bounds
// it. Of that bias alone both become 0.
void blank_key_bias(const std::string& name, std::vector<float>& values,
                    std::vector<double>& expected);

// Every gradient of the first step, in fp32. `prefix` is "smoothed." where the loss was.
void check_gradients(const GoldenModel& model, const Outcome& outcome, const std::string& prefix);
// The same of a step computed in a 16-bit type, within what rounding adds up to.
void check_rounded_gradients(const GoldenModel& model, const Outcome& outcome, DType type);
// Losses, norms and rates of every step, and the parameters after the last.
void check_curve(const GoldenModel& model, const std::string& run, const Outcome& outcome);

// To the last bit: losses, norms, and the parameters after the last step; and the first gradients.
void check_equal(const Outcome& a, const Outcome& b);
void check_equal_with_gradients(const Outcome& a, const Outcome& b);

}  // namespace chimera::test
