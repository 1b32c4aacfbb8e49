#pragma once
// y = x W + b, W (in, out) as in Hugging Face's Conv1D.   x (R, in), y (R, out)
#include "chimera/nn/params.h"
#include "chimera/nn/pass.h"

namespace chimera::nn {

class Linear {
 public:
  static constexpr int kParameters = 2;
  // Declares prefix.weight and prefix.bias; `order` is the model position of the weight.
  Linear(ParameterLayout& params, const std::string& prefix, Index in, Index out, int order,
         int depth, float deviation);

  void forward(Pass& pass, Tensor y, Tensor x) const;
  // With the GELU behind it: gelu = GELU(y).
  void forward_gelu(Pass& pass, Tensor gelu, Tensor y, Tensor x) const;
  void backward_input(Pass& pass, Tensor dx, Tensor dy) const;
  // Where x = GELU(pre): the gradient of pre. Nothing overlaps.
  void backward_input_gelu(Pass& pass, Tensor dpre, Tensor dy, Tensor pre) const;
  void backward_weight(Pass& pass, Tensor dy, Tensor x) const;

 private:
  Region weight_, bias_;
};

}  // namespace chimera::nn
