#include "chimera/ops/ops.h"

namespace chimera {

void Ops::residual_layernorm_forward(Tensor y, Tensor mean, Tensor rstd, Tensor out,
                                     Tensor residual, Tensor branch, Tensor gain, Tensor bias,
                                     float epsilon, const Dropout& dropout) {
  residual_forward(out, residual, branch, dropout);
  layernorm_forward(y, mean, rstd, out, gain, bias, epsilon);
}

void Ops::layernorm_backward(Tensor dx, Tensor dgain, Tensor dbias, Tensor mean, Tensor rstd,
                             Tensor dy, Tensor x, Tensor gain, Write mode) {
  layernorm_backward_weight(dgain, dbias, mean, rstd, dy, x);  // first: dx may be x
  layernorm_backward_input(dx, mean, rstd, dy, x, gain, mode);
}

void Ops::linear_gelu_forward(Tensor gelu, Tensor pre, Tensor x, Tensor w, Tensor bias) {
  matmul(pre, x, Transpose::No, w, Transpose::No, Write::Set, bias);
  gelu_forward(gelu, pre);
}

void Ops::linear_gelu_backward(Tensor dpre, Tensor dy, Tensor w, Tensor pre) {
  matmul(dpre, dy, Transpose::No, w, Transpose::Yes, Write::Set);
  gelu_backward(dpre, dpre, pre);
}

void Ops::linear_backward_weight(Tensor dw, Tensor dbias, Tensor x, Tensor dy) {
  matmul(dw, x, Transpose::Yes, dy, Transpose::No, Write::Add);
  bias_backward(dbias, dy);
}

}  // namespace chimera
