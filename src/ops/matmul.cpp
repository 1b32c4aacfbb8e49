#include "checks.h"

namespace chimera {
namespace contract {

Product check_matmul(const Tensor& out, const Tensor& a, Transpose transpose_a, const Tensor& b,
                     Transpose transpose_b, const Tensor& bias) {
  const DType type = storage_of("matmul", "a", a);
  for (const Tensor* x : {&out, &a, &b})  // out: also a gradient, F32 of factors of any type
    ENSURE(x->rank() == 2 && (x->type() == type || (x == &out && x->type() == DType::F32)),
           "matmul: ", to_string(x->type()), " ", x->shape_text(), " is not a matrix of ",
           to_string(type));
  const bool ta = transpose_a == Transpose::Yes, tb = transpose_b == Transpose::Yes;
  const Index M = a.dim(ta ? 1 : 0), K = a.dim(ta ? 0 : 1), N = b.dim(tb ? 0 : 1);
  ENSURE(b.dim(tb ? 1 : 0) == K && out.dim(0) == M && out.dim(1) == N, "matmul: out ",
         out.shape_text(), " from a ", a.shape_text(), ta ? "'" : "", " and b ", b.shape_text(),
         tb ? "'" : "");
  if (!bias.empty()) check_size("matmul", "bias", bias, N, type);
  return {M, N, K};
}

Rows check_bias_backward(const Tensor& dbias, const Tensor& dy) {
  const Rows rows = as_matrix("bias_backward", "dy", dy, storage_of("bias_backward", "dy", dy));
  check_size("bias_backward", "dbias", dbias, rows.C);
  return rows;
}

}  // namespace contract

void Ops::matmul(Tensor out, Tensor a, Transpose transpose_a, Tensor b, Transpose transpose_b,
                 Write mode, Tensor bias) {
  const contract::Product size = contract::check_matmul(out, a, transpose_a, b, transpose_b, bias);
  const double flops = 2.0 * static_cast<double>(out.size()) * static_cast<double>(size.K);
  run(
      "matmul", {mode == Write::Add ? updates(out) : writes(out), reads(a), reads(b), reads(bias)},
      [&] { do_matmul(out, a, transpose_a, b, transpose_b, mode, bias, size); }, flops);
}

void Ops::bias_backward(Tensor dbias, Tensor dy) {
  const contract::Rows rows = contract::check_bias_backward(dbias, dy);
  run("bias backward", {updates(dbias), reads(dy)}, [&] { do_bias_backward(dbias, dy, rows); });
}

}  // namespace chimera
