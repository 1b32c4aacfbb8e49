#include "checks.h"

namespace chimera {
namespace contract {

Rows check_layernorm_forward(const Tensor& y, const Tensor& mean, const Tensor& rstd,
                             const Tensor& x, const Tensor& gain, const Tensor& bias) {
  const char* op = "layernorm_forward";
  const DType type = storage_of(op, "x", x);
  const Rows rows = as_matrix(op, "x", x, type);
  check_matrix(op, "y", y, rows, type);
  check_size(op, "mean", mean, rows.R);
  check_size(op, "rstd", rstd, rows.R);
  check_size(op, "gain", gain, rows.C, type);
  check_size(op, "bias", bias, rows.C, type);
  return rows;
}

Rows check_layernorm_backward_input(const Tensor& dx, const Tensor& mean, const Tensor& rstd,
                                    const Tensor& dy, const Tensor& x, const Tensor& gain) {
  const char* op = "layernorm_backward_input";
  const DType type = storage_of(op, "x", x);
  const Rows rows = as_matrix(op, "x", x, type);
  check_matrix(op, "dx", dx, rows, type);
  check_matrix(op, "dy", dy, rows, type);
  check_size(op, "mean", mean, rows.R);
  check_size(op, "rstd", rstd, rows.R);
  check_size(op, "gain", gain, rows.C, type);
  return rows;
}

Rows check_layernorm_backward_weight(const Tensor& dgain, const Tensor& dbias, const Tensor& mean,
                                     const Tensor& rstd, const Tensor& dy, const Tensor& x) {
  const char* op = "layernorm_backward_weight";
  const DType type = storage_of(op, "x", x);
  const Rows rows = as_matrix(op, "x", x, type);
  check_matrix(op, "dy", dy, rows, type);
  check_size(op, "mean", mean, rows.R);
  check_size(op, "rstd", rstd, rows.R);
  check_size(op, "dgain", dgain, rows.C);
  check_size(op, "dbias", dbias, rows.C);
  return rows;
}

}  // namespace contract

void Ops::layernorm_forward(Tensor y, Tensor mean, Tensor rstd, Tensor x, Tensor gain, Tensor bias,
                            float epsilon) {
  const contract::Rows rows = contract::check_layernorm_forward(y, mean, rstd, x, gain, bias);
  run("layernorm forward",
      {writes(y), writes(mean), writes(rstd), reads(x), reads(gain), reads(bias)},
      [&] { do_layernorm_forward(y, mean, rstd, x, gain, bias, epsilon, rows); });
}

void Ops::layernorm_backward_input(Tensor dx, Tensor mean, Tensor rstd, Tensor dy, Tensor x,
                                   Tensor gain, Write mode) {
  const contract::Rows rows = contract::check_layernorm_backward_input(dx, mean, rstd, dy, x, gain);
  run("layernorm backward",
      {mode == Write::Add ? updates(dx) : writes(dx), reads(mean), reads(rstd), reads(dy), reads(x),
       reads(gain)},
      [&] { do_layernorm_backward_input(dx, mean, rstd, dy, x, gain, mode, rows); });
}

void Ops::layernorm_backward_weight(Tensor dgain, Tensor dbias, Tensor mean, Tensor rstd, Tensor dy,
                                    Tensor x) {
  const contract::Rows rows =
      contract::check_layernorm_backward_weight(dgain, dbias, mean, rstd, dy, x);
  run("layernorm backward",
      {updates(dgain), updates(dbias), reads(mean), reads(rstd), reads(dy), reads(x)},
      [&] { do_layernorm_backward_weight(dgain, dbias, mean, rstd, dy, x, rows); });
}

}  // namespace chimera
