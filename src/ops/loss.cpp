#include "checks.h"

namespace chimera {

using namespace contract;

void Ops::cross_entropy(Tensor losses, Tensor logits, Tensor targets, float smoothing, float scale,
                        Gradient gradient) {
  const Rows rows =
      as_matrix("cross_entropy", "logits", logits, storage_of("cross_entropy", "logits", logits));
  check_size("cross_entropy", "losses", losses, rows.R);
  check_ids("cross_entropy", "targets", targets, rows.R);
  ENSURE(smoothing >= 0 && smoothing <= 1, "cross_entropy: label smoothing is ", smoothing,
         "; it must be in [0, 1]");
  run("cross entropy",
      {writes(losses), gradient == Gradient::InPlace ? updates(logits) : reads(logits),
       native(targets)},
      [&] { do_cross_entropy(losses, logits, targets, smoothing, scale, gradient, rows); });
}

void Ops::sum_rows(Tensor sums, Tensor x) {
  const Rows rows = as_matrix("sum_rows", "x", x);
  ENSURE(sums.type() == DType::F64 && sums.size() == rows.R, "sum_rows: sums are ",
         to_string(sums.type()), " ", sums.shape_text(), "; ", rows.R, " of F64 are needed");
  run("sum of losses", {native(sums), native(x)}, [&] { do_sum_rows(sums, x, rows); });
}

}  // namespace chimera
