#include "chimera/optim/optimizer.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace chimera::optim {

double learning_rate(Index step, Index steps, double peak, const LrScheduleConfig& schedule) {
  const Index warmup = schedule.warmup_steps;
  if (step < warmup) return peak * static_cast<double>(step + 1) / static_cast<double>(warmup);
  if (schedule.type == "constant") return peak;
  const double low = schedule.min_learning_rate;
  if (step >= steps) return low;
  const double r = static_cast<double>(step - warmup) / static_cast<double>(steps - warmup);
  if (schedule.type == "linear") return low + (peak - low) * (1 - r);
  ENSURE(schedule.type == "cosine", "lr_schedule.type is ", schedule.type,
         "; it is cosine, linear or constant");
  return low + (peak - low) * (1 + std::cos(std::numbers::pi * r)) / 2;
}

double layer_rate(const nn::Parameter& parameter, Index n_layer, double layer_lr_decay) {
  return std::pow(layer_lr_decay, static_cast<double>(n_layer + 1 - parameter.depth));
}

double clip_factor(double norm, double clip) {
  return clip > 0 ? std::min(1.0, clip / (norm + 1e-6)) : 1.0;
}

ShardRange range_in_shard(const nn::Parameter& p, const Shard& shard) {
  const Index begin = p.region.offset / size_of(DType::F32), end = begin + p.region.size();
  const Index from = std::max(begin, shard.first), to = std::min(end, shard.first + shard.count);
  return {std::max(from - begin, Index{0}), std::max(to - from, Index{0})};
}

void adamw_step(Ops& ops, std::vector<AdamWTensor>& tensors, const nn::ParameterLayout& params,
                const StepMemory& memory, const OptimizerConfig& config, const StepNumbers& step,
                Index n_layer, const Shard& shard) {
  tensors.clear();
  for (const nn::Parameter& p : params.parameters) {
    const ShardRange range = range_in_shard(p, shard);
    if (p.frozen || range.count == 0) continue;
    const auto whole = [&](const Flat& flat) {
      return flat.at(p.region).reshaped({p.region.size()}).rows(range.first, range.count);
    };
    const Index offset = p.region.offset + (range.first - shard.first) * size_of(DType::F32);
    const auto sharded = [&](const Flat& flat) {
      return Tensor(flat.base + offset, DType::F32, {range.count});
    };
    const bool master = memory.master.base != nullptr;
    tensors.push_back(
        {.param = master ? sharded(memory.master) : whole(memory.weights),
         .m = sharded(memory.m),
         .v = sharded(memory.v),
         .grad = whole(memory.gradients),
         .weight = master ? whole(memory.weights) : Tensor(),
         .rate = static_cast<float>(step.rate * layer_rate(p, n_layer, config.layer_lr_decay)),
         .decay = p.decays() ? static_cast<float>(config.weight_decay) : 0.0f,
         .order = p.order,
         .first = range.first});
  }
  ops.adamw(tensors, {.beta1 = static_cast<float>(config.beta1),
                      .beta2 = static_cast<float>(config.beta2),
                      .epsilon = static_cast<float>(config.epsilon),
                      .grad_scale = static_cast<float>(step.grad_scale),
                      .t = step.t,
                      .stochastic = step.stochastic,
                      .seed = step.seed});
}

}  // namespace chimera::optim
