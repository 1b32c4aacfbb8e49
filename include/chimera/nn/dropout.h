#pragma once
// Dropout at one place of the model. Masks are never stored: forward and backward draw the same one
// (chimera::Dropout in ops.h says from what), and the op behind applies it.
#include "chimera/nn/pass.h"

namespace chimera::nn {

class DropoutLayer {
 public:
  DropoutLayer(float probability, int layer, DropoutSite site)
      : probability_(probability), layer_(layer), site_(site) {}

  // The mask of this pass's samples; off in evaluation.
  Dropout mask(const Pass& pass) const {
    return {pass.mode == Mode::Train ? probability_ : 0.0f, pass.dropout_seed, pass.first_sample,
            layer_, site_};
  }

 private:
  float probability_;
  int layer_;
  DropoutSite site_;
};

}  // namespace chimera::nn
