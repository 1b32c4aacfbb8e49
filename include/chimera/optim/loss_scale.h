#pragma once
// The factor of the loss that keeps gradients within fp16's range (Micikevicius et al., "Mixed
// precision training", ICLR'18, section 3.2). Every worker keeps its own and feeds it the step's
// one step synchronisation, so all of them are always the same.
#include <optional>
#include <string>

#include "chimera/base/types.h"

namespace chimera::optim {

class LossScale {
 public:
  static constexpr double kFirst = 65536, kMost = 0x1p32;
  static constexpr Index kGrowAfter = 2000;  // good steps in a row

  LossScale() = default;  // 1, fixed: for types with fp32's range
  static LossScale dynamic() { return LossScale(kFirst, true); }
  static LossScale fixed(double scale) { return LossScale(scale, false); }
  // "dynamic", or a number from 1 to kMost; nothing for any other text.
  static std::optional<LossScale> parse(const std::string& text);

  double value() const { return scale_; }
  Index skipped() const { return skipped_; }
  // Whether a step whose gradients are not finite is left out and the scale halved. Not at 1, and
  // not a fixed scale: then nothing helps.
  bool can_skip() const { return dynamic_ && scale_ > 1; }
  void skip();       // halves, counts
  void good_step();  // doubles after kGrowAfter of them

  // What a checkpoint keeps.
  struct State {
    double scale = 1;
    Index good_steps = 0, skipped = 0;
  };
  State state() const { return {scale_, good_steps_, skipped_}; }
  // Goes on from it: a fixed scale keeps its own value, and all keep the number of steps skipped.
  void restore(const State& state);

 private:
  LossScale(double scale, bool dynamic) : scale_(scale), dynamic_(dynamic) {}

  double scale_ = 1;
  bool dynamic_ = false;
  Index good_steps_ = 0, skipped_ = 0;
};

}  // namespace chimera::optim
