#pragma once
// A layout run for real, on synthetic tokens.
#include <vector>

#include "chimera/runtime/sample_source.h"
#include "chimera/setup/config.h"

namespace chimera::bench {

// Synthetic tokens, the same on every run: the time of a step does not depend on them.
class SyntheticSamples final : public SampleSource {
 public:
  SyntheticSamples(Index T, Index vocabulary) : T_(T), vocabulary_(vocabulary) {}
  void read(Index number, std::int32_t* inputs, std::int32_t* targets) override {
    for (Index t = 0; t < T_; ++t) {
      inputs[t] = static_cast<std::int32_t>((number * 7919 + t * 104729) % vocabulary_);
      targets[t] = static_cast<std::int32_t>((number * 7919 + (t + 1) * 104729) % vocabulary_);
    }
  }

 private:
  Index T_, vocabulary_;
};

// Seconds from step to step of `steps` consecutive ones after the first two, with the layout's
// workers as threads of this process, on the configuration's kind of device.
std::vector<double> measure_steps(const Config& config, Index steps);
// The fastest of them, on the CPU.
double measure_step_seconds(Config config, Index steps);

}  // namespace chimera::bench
