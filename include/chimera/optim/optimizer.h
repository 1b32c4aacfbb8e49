#pragma once
// AdamW with warm-up, decay schedules, layer-wise rates and clipping by the global norm.
#include <string>
#include <vector>

#include "chimera/nn/params.h"
#include "chimera/ops/ops.h"

namespace chimera::optim {

struct OptimizerConfig {
  double learning_rate = 6e-4, beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8, weight_decay = 0.1;
  double grad_clip = 1.0;  // 0: off
  double label_smoothing = 0;
  double layer_lr_decay = 1.0;
};

struct LrScheduleConfig {
  std::string type = "cosine";  // cosine, linear, constant
  Index warmup_steps = 0;
  double min_learning_rate = 0;
};

// Rate at step s (from 0) of `steps`: peak (s + 1) / warmup while s < warmup; then with
// r = (s - warmup) / (steps - warmup): cosine low + (peak - low)(1 + cos(pi r)) / 2, linear
// low + (peak - low)(1 - r), constant peak; at and after `steps` cosine and linear stay at low.
double learning_rate(Index step, Index steps, double peak, const LrScheduleConfig& schedule);

// Factor of one parameter's rate: layer_lr_decay ^ (n_layer + 1 - depth).
double layer_rate(const nn::Parameter& parameter, Index n_layer, double layer_lr_decay);

// min(1, clip / (norm + 1e-6)); 1 when clip is 0.
double clip_factor(double norm, double clip);

// Elements of a ParameterLayout, counted in floats from its start, that one worker updates.
struct Shard {
  Index first = 0, count = 0;
};
// Those of one parameter that are in a shard.
struct ShardRange {
  Index first = 0, count = 0;  // counted from the parameter's first element
};
ShardRange range_in_shard(const nn::Parameter& parameter, const Shard& shard);

// The memory of a stage that a step works on. Where `master` is set, it holds the parameters, and
// weights (BF16 or F16) become them, rounded; else weights (F32) are the parameters themselves.
struct StepMemory {
  Flat weights, gradients;  // of the whole layout
  Flat m, v, master;        // of the shard alone
};
struct StepNumbers {
  double rate = 0, grad_scale = 1;
  Index t = 1;              // from 1
  bool stochastic = false;  // rounding of weights, drawn from `seed`
  std::uint64_t seed = 0;
};

// Applies a step to every parameter that is not frozen, as far as it is in the shard. `tensors` is
// overwritten: kept from step to step, it is not allocated again.
void adamw_step(Ops& ops, std::vector<AdamWTensor>& tensors, const nn::ParameterLayout& params,
                const StepMemory& memory, const OptimizerConfig& config, const StepNumbers& step,
                Index n_layer, const Shard& shard);

}  // namespace chimera::optim
