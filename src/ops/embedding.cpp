#include "checks.h"

namespace chimera {

using namespace contract;

void Ops::embedding_forward(Tensor x, Tensor tokens, Tensor wte, Tensor wpe, Index T,
                            const Dropout& dropout) {
  const char* op = "embedding_forward";
  const DType type = storage_of(op, "x", x);
  const auto [R, C] = as_matrix(op, "x", x, type);
  const Index V = as_matrix(op, "wte", wte, type).R;
  check_matrix(op, "wte", wte, {V, C}, type);
  const Index P = as_matrix(op, "wpe", wpe, type).R;
  check_matrix(op, "wpe", wpe, {P, C}, type);
  ENSURE(T >= 1 && T <= P, op, ": ", T, " tokens of a sample, ", P, " positions");
  check_ids(op, "tokens", tokens, R);
  const Mask mask = make_mask(op, dropout, checked_mul(T, C));
  if (mask.threshold != 0) div_exact(R, T);
  const Lookup size{R, T, C, V, mask};
  run("embedding forward", {writes(x), native(tokens), reads(wte), reads(wpe)},
      [&] { do_embedding_forward(x, tokens, wte, wpe, size); });
}

void Ops::embedding_backward(Tensor dwte, Tensor dwpe, Tensor dx, Tensor tokens, Index T,
                             const Dropout& dropout) {
  const char* op = "embedding_backward";
  const auto [R, C] = as_matrix(op, "dx", dx, storage_of(op, "dx", dx));
  const Index V = as_matrix(op, "dwte", dwte).R;
  check_matrix(op, "dwte", dwte, {V, C});
  ENSURE(T >= 1, op, ": ", T, " tokens of a sample");
  if (!dwpe.empty()) {
    const Index P = as_matrix(op, "dwpe", dwpe).R;
    check_matrix(op, "dwpe", dwpe, {P, C});
    ENSURE(T <= P, op, ": ", T, " tokens of a sample, ", P, " positions");
  }
  check_ids(op, "tokens", tokens, R);
  const Mask mask = make_mask(op, dropout, checked_mul(T, C));
  if (mask.threshold != 0) div_exact(R, T);
  const Lookup size{R, T, C, V, mask};
  run("embedding backward", {updates(dwte), updates(dwpe), updates(dx), native(tokens)},
      [&] { do_embedding_backward(dwte, dwpe, dx, tokens, size); });
}

}  // namespace chimera
