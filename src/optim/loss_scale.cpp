#include "chimera/optim/loss_scale.h"

#include <algorithm>
#include <charconv>

namespace chimera::optim {

std::optional<LossScale> LossScale::parse(const std::string& text) {
  if (text == "dynamic") return dynamic();
  double scale = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), scale);
  const bool number = error == std::errc() && end == text.data() + text.size();
  if (!number || !(scale >= 1 && scale <= kMost)) return std::nullopt;
  return fixed(scale);
}

void LossScale::skip() {
  ENSURE(can_skip(), "a step is skipped at a loss scale of ", scale_, ", which cannot be lowered");
  scale_ = std::max(1.0, scale_ / 2);
  good_steps_ = 0;
  ++skipped_;
}

void LossScale::good_step() {
  if (!dynamic_ || ++good_steps_ < kGrowAfter) return;
  scale_ = std::min(kMost, 2 * scale_);
  good_steps_ = 0;
}

void LossScale::restore(const State& state) {
  ENSURE(state.scale >= 1 && state.scale <= kMost && state.good_steps >= 0 && state.skipped >= 0,
         "a loss scale of ", state.scale, " after ", state.good_steps, " good steps and ",
         state.skipped, " skipped ones; the scale is 1 to ", kMost);
  skipped_ = state.skipped;
  if (!dynamic_) return;
  scale_ = state.scale;
  good_steps_ = state.good_steps;
}

}  // namespace chimera::optim
