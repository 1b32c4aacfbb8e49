#pragma once

namespace chimera {

struct StepResult {
  double loss = 0, grad_norm = 0, learning_rate = 0;
  double data_seconds = 0;  // mean over workers of the time in LoadMicro
  bool stop = false;        // some worker was asked to stop
  double loss_scale = 1;    // that the step was computed with; norms are without it
  bool skipped = false;     // gradients overflowed under it: no worker applied the step
};

}  // namespace chimera
