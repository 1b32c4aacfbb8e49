#include "chimera/nn/linear.h"

namespace chimera::nn {

Linear::Linear(ParameterLayout& params, const std::string& prefix, Index in, Index out, int order,
               int depth, float deviation)
    : weight_(params.add(
          prefix + ".weight", {in, out},
          {.order = order, .depth = depth, .init = Init::Normal, .deviation = deviation})),
      bias_(params.add(prefix + ".bias", {out},
                       {.order = order + 1, .depth = depth, .init = Init::Zeros})) {}

void Linear::forward(Pass& pass, Tensor y, Tensor x) const {
  pass.ops.matmul(y, x, Transpose::No, pass.weights.at(weight_), Transpose::No, Write::Set,
                  pass.weights.at(bias_));
}

void Linear::forward_gelu(Pass& pass, Tensor gelu, Tensor y, Tensor x) const {
  pass.ops.linear_gelu_forward(gelu, y, x, pass.weights.at(weight_), pass.weights.at(bias_));
}

void Linear::backward_input(Pass& pass, Tensor dx, Tensor dy) const {
  pass.ops.matmul(dx, dy, Transpose::No, pass.weights.at(weight_), Transpose::Yes, Write::Set);
}

void Linear::backward_input_gelu(Pass& pass, Tensor dpre, Tensor dy, Tensor pre) const {
  pass.ops.linear_gelu_backward(dpre, dy, pass.weights.at(weight_), pre);
}

void Linear::backward_weight(Pass& pass, Tensor dy, Tensor x) const {
  pass.ops.linear_backward_weight(pass.gradients.at(weight_), pass.gradients.at(bias_), x, dy);
}

}  // namespace chimera::nn
