#include "checks.h"

namespace chimera {
namespace contract {

Samples check_residual_forward(const Tensor& out, const Tensor& residual, const Tensor& branch,
                               const Dropout& dropout) {
  const char* op = "residual_forward";
  ENSURE(branch.rank() == 3, op, ": branch is ", branch.shape_text(), "; (B, T, C) is needed");
  const DType type = storage_of(op, "branch", branch);
  check_size(op, "out", out, branch.size(), type);
  check_size(op, "residual", residual, branch.size(), type);
  const Index size = branch.dim(1) * branch.dim(2);
  return {branch.dim(0), size, make_mask(op, dropout, size)};
}

}  // namespace contract

void Ops::check_elementwise(const char* name, OperandList operands) {
  const Operand& first = *operands.begin();
  const DType type = contract::storage_of(name, first.name, *first.tensor);
  for (const Operand& x : operands)
    contract::check_size(name, x.name, *x.tensor, first.tensor->size(), type);
}

void Ops::residual_forward(Tensor out, Tensor residual, Tensor branch, const Dropout& dropout) {
  const contract::Samples samples =
      contract::check_residual_forward(out, residual, branch, dropout);
  run("residual", {writes(out), reads(residual), reads(branch)},
      [&] { do_residual_forward(out, residual, branch, samples); });
}

void Ops::residual_backward(Tensor dbranch, Tensor dout, const Dropout& dropout) {
  const char* op = "residual_backward";
  ENSURE(dout.rank() == 3, op, ": dout is ", dout.shape_text(), "; (B, T, C) is needed");
  contract::check_size(op, "dbranch", dbranch, dout.size(), contract::storage_of(op, "dout", dout));
  const Index size = dout.dim(1) * dout.dim(2);
  const contract::Samples samples{dout.dim(0), size, contract::make_mask(op, dropout, size)};
  run("residual", {writes(dbranch), reads(dout)},
      [&] { do_residual_backward(dbranch, dout, samples); });
}

void Ops::convert(Tensor out, Tensor x) {
  ENSURE((out.type() == DType::F32 && contract::is_half(x.type())) ||
             (contract::is_half(out.type()) && x.type() == DType::F32),
         "convert: from ", to_string(x.type()), " to ", to_string(out.type()),
         "; one of them must be F32, the other BF16 or F16");
  ENSURE(out.size() == x.size(), "convert: out is ", out.shape_text(), ", x is ", x.shape_text());
  run("convert", {native(out), native(x)}, [&] { do_convert(out, x); });
}

}  // namespace chimera
