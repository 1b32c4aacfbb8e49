#include "chimera/nn/layernorm.h"

namespace chimera::nn {

LayerNorm::LayerNorm(ParameterLayout& params, const std::string& prefix, Index C, int order,
                     int depth, float epsilon)
    : gain_(params.add(prefix + ".weight", {C},
                       {.order = order, .depth = depth, .init = Init::Ones})),
      bias_(params.add(prefix + ".bias", {C},
                       {.order = order + 1, .depth = depth, .init = Init::Zeros})),
      epsilon_(epsilon) {}

LayerNorm::Saved LayerNorm::declare(Layout& activations, const std::string& name, Index rows) {
  return {activations.add(name + ".mean", DType::F32, {rows}),
          activations.add(name + ".rstd", DType::F32, {rows})};
}

void LayerNorm::forward(Pass& pass, Tensor y, Tensor x, Tensor mean, Tensor rstd) const {
  pass.ops.layernorm_forward(y, mean, rstd, x, pass.weights.at(gain_), pass.weights.at(bias_),
                             epsilon_);
}

void LayerNorm::forward_sum(Pass& pass, Tensor y, Tensor sum, Tensor residual, Tensor branch,
                            Tensor mean, Tensor rstd, const Dropout& dropout) const {
  pass.ops.residual_layernorm_forward(y, mean, rstd, sum, residual, branch, pass.weights.at(gain_),
                                      pass.weights.at(bias_), epsilon_, dropout);
}

void LayerNorm::backward(Pass& pass, Tensor dx, Tensor dy, Tensor x, Tensor mean, Tensor rstd,
                         Write mode) const {
  pass.ops.layernorm_backward(dx, pass.gradients.at(gain_), pass.gradients.at(bias_), mean, rstd,
                              dy, x, pass.weights.at(gain_), mode);
}

}  // namespace chimera::nn
