// Composite ops. The public methods check everything first; the do_* of this file say what the ops
// are: their parts, one after the other.
#include "checks.h"

namespace chimera {

void Ops::residual_layernorm_forward(Tensor y, Tensor mean, Tensor rstd, Tensor out,
                                     Tensor residual, Tensor branch, Tensor gain, Tensor bias,
                                     float epsilon, const Dropout& dropout) {
  const contract::Samples samples =
      contract::check_residual_forward(out, residual, branch, dropout);
  const contract::Rows rows = contract::check_layernorm_forward(y, mean, rstd, out, gain, bias);
  run_composite(
      "residual layernorm forward",
      {writes(y), writes(mean), writes(rstd), writes(out), reads(residual), reads(branch),
       reads(gain), reads(bias)},
      [&] {
        do_residual_layernorm_forward(y, mean, rstd, out, residual, branch, gain, bias, epsilon,
                                      dropout, samples.mask, rows);
      },
      [&] {
        Ops::do_residual_layernorm_forward(y, mean, rstd, out, residual, branch, gain, bias,
                                           epsilon, dropout, samples.mask, rows);
      });
}
void Ops::do_residual_layernorm_forward(Tensor y, Tensor mean, Tensor rstd, Tensor out,
                                        Tensor residual, Tensor branch, Tensor gain, Tensor bias,
                                        float epsilon, const Dropout& dropout, const Mask&,
                                        contract::Rows) {
  residual_forward(out, residual, branch, dropout);
  layernorm_forward(y, mean, rstd, out, gain, bias, epsilon);
}

void Ops::layernorm_backward(Tensor dx, Tensor dgain, Tensor dbias, Tensor mean, Tensor rstd,
                             Tensor dy, Tensor x, Tensor gain, Write mode) {
  const contract::Rows rows = contract::check_layernorm_backward_input(dx, mean, rstd, dy, x, gain);
  contract::check_layernorm_backward_weight(dgain, dbias, mean, rstd, dy, x);
  run_composite(
      "layernorm backward",
      {mode == Write::Add ? updates(dx) : writes(dx), updates(dgain), updates(dbias), reads(mean),
       reads(rstd), reads(dy), reads(x), reads(gain)},
      [&] { do_layernorm_backward(dx, dgain, dbias, mean, rstd, dy, x, gain, mode, rows); },
      [&] { Ops::do_layernorm_backward(dx, dgain, dbias, mean, rstd, dy, x, gain, mode, rows); });
}
void Ops::do_layernorm_backward(Tensor dx, Tensor dgain, Tensor dbias, Tensor mean, Tensor rstd,
                                Tensor dy, Tensor x, Tensor gain, Write mode, contract::Rows) {
  layernorm_backward_weight(dgain, dbias, mean, rstd, dy, x);  // first: dx may be x
  layernorm_backward_input(dx, mean, rstd, dy, x, gain, mode);
}

void Ops::linear_gelu_forward(Tensor gelu, Tensor pre, Tensor x, Tensor w, Tensor bias) {
  contract::check_matmul(pre, x, Transpose::No, w, Transpose::No, bias);
  check_elementwise("gelu forward", {writes(gelu, "gelu"), reads(pre, "pre")});
  run_composite(
      "linear gelu forward", {writes(gelu), writes(pre), reads(x), reads(w), reads(bias)},
      [&] { do_linear_gelu_forward(gelu, pre, x, w, bias); },
      [&] { Ops::do_linear_gelu_forward(gelu, pre, x, w, bias); });
}
void Ops::do_linear_gelu_forward(Tensor gelu, Tensor pre, Tensor x, Tensor w, Tensor bias) {
  matmul(pre, x, Transpose::No, w, Transpose::No, Write::Set, bias);
  gelu_forward(gelu, pre);
}

void Ops::linear_gelu_backward(Tensor dpre, Tensor dy, Tensor w, Tensor pre) {
  contract::check_matmul(dpre, dy, Transpose::No, w, Transpose::Yes, {});
  check_elementwise("gelu backward", {writes(dpre, "dpre"), reads(pre, "pre")});
  run_composite(
      "linear gelu backward", {writes(dpre), reads(dy), reads(w), reads(pre)},
      [&] { do_linear_gelu_backward(dpre, dy, w, pre); },
      [&] { Ops::do_linear_gelu_backward(dpre, dy, w, pre); });
}
void Ops::do_linear_gelu_backward(Tensor dpre, Tensor dy, Tensor w, Tensor pre) {
  matmul(dpre, dy, Transpose::No, w, Transpose::Yes, Write::Set);
  gelu_backward(dpre, dpre, pre);
}

void Ops::linear_backward_weight(Tensor dw, Tensor dbias, Tensor x, Tensor dy) {
  contract::check_matmul(dw, x, Transpose::Yes, dy, Transpose::No, {});
  contract::check_bias_backward(dbias, dy);
  run_composite(
      "linear backward weight", {updates(dw), updates(dbias), reads(x), reads(dy)},
      [&] { do_linear_backward_weight(dw, dbias, x, dy); },
      [&] { Ops::do_linear_backward_weight(dw, dbias, x, dy); });
}
void Ops::do_linear_backward_weight(Tensor dw, Tensor dbias, Tensor x, Tensor dy) {
  matmul(dw, x, Transpose::Yes, dy, Transpose::No, Write::Add);
  bias_backward(dbias, dy);
}

}  // namespace chimera
