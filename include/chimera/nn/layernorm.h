#pragma once
// y = gain * (x - mean) * rstd + bias over the last dimension.   x, y (R, C)
#include "chimera/nn/params.h"
#include "chimera/nn/pass.h"

namespace chimera::nn {

class LayerNorm {
 public:
  struct Saved {
    Region mean, rstd;  // (R)
  };
  LayerNorm(ParameterLayout& params, const std::string& prefix, Index C, int order, int depth,
            float epsilon);

  static Saved declare(Layout& activations, const std::string& name, Index rows);
  void forward(Pass& pass, Tensor y, Tensor x, Tensor mean, Tensor rstd) const;
  // Of sum = residual + dropout(branch), (B, T, C), which may stand in the place of either.
  void forward_sum(Pass& pass, Tensor y, Tensor sum, Tensor residual, Tensor branch, Tensor mean,
                   Tensor rstd, const Dropout& dropout) const;
  // dx = or += the input gradient; gain and bias gradients are added at once (they are cheap). dx
  // may be x.
  void backward(Pass& pass, Tensor dx, Tensor dy, Tensor x, Tensor mean, Tensor rstd,
                Write mode) const;

 private:
  Region gain_, bias_;
  float epsilon_;
};

}  // namespace chimera::nn
