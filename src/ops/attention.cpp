#include "checks.h"

namespace chimera {

using namespace contract;

namespace {

// Shape of attention over qkv (B, T, 3, C).
AttentionShape packed_shape(const char* op, const Tensor& qkv, Index H) {
  storage_of(op, "qkv", qkv);
  ENSURE(qkv.rank() == 4 && qkv.dim(2) == 3, op, ": qkv is ", qkv.shape_text(),
         "; (B, T, 3, C) is needed");
  ENSURE(H >= 1 && qkv.dim(3) % H == 0, op, ": ", H, " heads do not divide ", qkv.dim(3),
         " channels");
  const Index B = qkv.dim(0), T = qkv.dim(1), C = qkv.dim(3);
  ENSURE(C / H >= 1 && C / H <= kMaxHead, op, ": a head of ", C / H, " channels; 1 to ", kMaxHead,
         " can be computed");
  return {B, H, T, C / H, 0, 3 * C, 3 * C, T * 3 * C, T * 3 * C, C};
}

}  // namespace

Attention contract::attention(const char* op, const Tensor& qkv, Index H, const Dropout& dropout) {
  const AttentionShape s = packed_shape(op, qkv, H);
  return {s, make_mask(op, dropout, checked_mul(checked_mul(s.H, s.T), s.T))};
}

void Ops::attention_forward(Tensor out, Tensor lse, Tensor qkv, Index H, const Dropout& dropout) {
  const char* op = "attention_forward";
  const Attention call = attention(op, qkv, H, dropout);
  const AttentionShape& s = call.shape;
  check_size(op, "out", out, s.B * s.T * s.out_row, qkv.type());
  check_size(op, "lse", lse, s.B * H * s.T);
  run("attention forward", {writes(out), writes(lse), reads(qkv)},
      [&] { do_attention_forward(out, lse, qkv, call); });
}

void Ops::attention_backward(Tensor dqkv, Tensor delta, Tensor dout, Tensor out, Tensor lse,
                             Tensor qkv, Index H, const Dropout& dropout) {
  const char* op = "attention_backward";
  const Attention call = attention(op, qkv, H, dropout);
  const AttentionShape& s = call.shape;
  check_size(op, "dqkv", dqkv, qkv.size(), qkv.type());
  check_size(op, "dout", dout, s.B * s.T * s.out_row, qkv.type());
  check_size(op, "out", out, s.B * s.T * s.out_row, qkv.type());
  check_size(op, "lse", lse, s.B * H * s.T);
  check_size(op, "delta", delta, s.B * H * s.T);
  run("attention backward",
      {writes(dqkv), writes(delta), reads(dout), reads(out), reads(lse), reads(qkv)},
      [&] { do_attention_backward(dqkv, delta, dout, out, lse, qkv, call); });
}

void Ops::attention_cached(Tensor out, Tensor keys, Tensor values, Tensor qkv, Index first,
                           Index H) {
  const char* op = "attention_cached";
  ENSURE(qkv.rank() == 3, op, ": qkv is ", qkv.shape_text(), "; (R, 3, C) is needed");
  const Index R = qkv.dim(0), C = qkv.dim(2);
  AttentionShape s = packed_shape(op, qkv.reshaped({1, R, qkv.dim(1), C}), H);
  const Index P = as_matrix(op, "keys", keys, qkv.type()).R;
  check_matrix(op, "keys", keys, {P, C}, qkv.type());
  check_matrix(op, "values", values, {P, C}, qkv.type());
  check_size(op, "out", out, R * C, qkv.type());
  ENSURE(first >= 0 && first <= P - R, op, ": ", R, " rows from position ", first,
         " on do not fit in a cache of ", P);
  s.first = first;
  s.kv_row = C;
  run("attention cached", {writes(out), updates(keys), updates(values), reads(qkv)},
      [&] { do_attention_cached(out, keys, values, qkv, s); });
}

}  // namespace chimera
