#include "chimera/nn/residual.h"

namespace chimera::nn {
void Residual::forward(Pass& pass, Tensor out, Tensor residual, Tensor branch) const {
  pass.ops.residual_forward(pass.activations.by_sample(out), pass.activations.by_sample(residual),
                            pass.activations.by_sample(branch), dropout_.mask(pass));
}

void Residual::forward_norm(Pass& pass, const LayerNorm& norm, Tensor y, Tensor mean, Tensor rstd,
                            Tensor out, Tensor residual, Tensor branch) const {
  norm.forward_sum(pass, y, pass.activations.by_sample(out), pass.activations.by_sample(residual),
                   pass.activations.by_sample(branch), mean, rstd, dropout_.mask(pass));
}

void Residual::backward(Pass& pass, Tensor dbranch, Tensor dout) const {
  pass.ops.residual_backward(pass.activations.by_sample(dbranch), pass.activations.by_sample(dout),
                             dropout_.mask(pass));
}

}  // namespace chimera::nn
