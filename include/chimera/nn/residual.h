#pragma once
// out = residual + dropout(branch).   all (R, C)
#include "chimera/nn/dropout.h"
#include "chimera/nn/layernorm.h"

namespace chimera::nn {

class Residual {
 public:
  explicit Residual(const DropoutLayer& dropout) : dropout_(dropout) {}

  // out may be residual or branch.
  void forward(Pass& pass, Tensor out, Tensor residual, Tensor branch) const;
  // With the norm behind it: y, mean, rstd = norm(out).
  void forward_norm(Pass& pass, const LayerNorm& norm, Tensor y, Tensor mean, Tensor rstd,
                    Tensor out, Tensor residual, Tensor branch) const;
  // The gradient of the branch; that of the residual is dout itself. dbranch may be dout.
  void backward(Pass& pass, Tensor dbranch, Tensor dout) const;

 private:
  DropoutLayer dropout_;
};

}  // namespace chimera::nn
