#include "chimera/ops/contract.h"

#include <cmath>

#include "chimera/base/rng.h"

namespace chimera::contract {
namespace {

// x as rows of its last dimension; F32 of rank 1 to 4.
Rows as_matrix(const char* op, const char* name, const Tensor& x) {
  ENSURE(x.type() == DType::F32 && x.rank() >= 1, op, ": ", name, " is ", to_string(x.type()), " ",
         x.shape_text(), "; rows of F32 are needed");
  Index rows = 1;
  for (int i = 0; i + 1 < x.rank(); ++i) rows *= x.dim(i);
  return {rows, x.dim(-1)};
}

// x is F32 and has `size` numbers.
void check_size(const char* op, const char* name, const Tensor& x, Index size) {
  ENSURE(x.type() == DType::F32 && x.size() == size && !(x.rank() == 0 && size > 0), op, ": ", name,
         " is ", to_string(x.type()), " ", x.shape_text(), "; ", size,
         " numbers of F32 are needed");
}

void check_matrix(const char* op, const char* name, const Tensor& x, Rows shape) {
  const Rows m = as_matrix(op, name, x);
  ENSURE(m.R == shape.R && m.C == shape.C, op, ": ", name, " is ", x.shape_text(), "; ", shape.R,
         " rows of ", shape.C, " are needed");
}

void check_ids(const char* op, const char* name, const Tensor& ids, Index R) {
  ENSURE(ids.type() == DType::I32 && ids.size() == R, op, ": ", name, " are ",
         to_string(ids.type()), " ", ids.shape_text(), "; ", R, " of I32 are needed");
}

// Mask of the elements of samples with `sample_size` elements each.
Mask make_mask(const char* op, const Dropout& dropout, Index sample_size) {
  const float p = dropout.probability;
  ENSURE(p >= 0 && p < 1, op, ": the dropout probability is ", p, "; it must be in [0, 1)");
  ENSURE(dropout.first_sample >= 0 && dropout.layer >= 0, op, ": dropout has first sample ",
         dropout.first_sample, " and layer ", dropout.layer, "; neither may be negative");
  Mask mask;
  if (p == 0) return mask;
  ENSURE(sample_size <= Index{1} << 34, op, ": a sample has ", sample_size,
         " elements; the random numbers of one sample end at ", Index{1} << 34);
  // uniform = (word >> 8) * 2^-24 >= p, as integers: exact, because scaling by 2^24 is.
  mask.threshold = static_cast<std::int32_t>(std::ceil(p * 0x1p24f));
  mask.scale = 1.0f / (1.0f - p);
  const auto key = philox_key(dropout.seed);
  mask.key[0] = key[0];
  mask.key[1] = key[1];
  mask.stream = narrow<std::uint32_t>(Index{4} * dropout.layer + static_cast<Index>(dropout.site));
  mask.first_sample = dropout.first_sample;
  return mask;
}

// Shape of attention over qkv (B, T, 3, C).
AttentionShape packed_shape(const char* op, const Tensor& qkv, Index H) {
  ENSURE(qkv.type() == DType::F32 && qkv.rank() == 4 && qkv.dim(2) == 3, op, ": qkv is ",
         to_string(qkv.type()), " ", qkv.shape_text(), "; F32 (B, T, 3, C) is needed");
  ENSURE(H >= 1 && qkv.dim(3) % H == 0, op, ": ", H, " heads do not divide ", qkv.dim(3),
         " channels");
  const Index B = qkv.dim(0), T = qkv.dim(1), C = qkv.dim(3);
  ENSURE(C / H >= 1 && C / H <= kMaxHead, op, ": a head of ", C / H, " channels; 1 to ", kMaxHead,
         " can be computed");
  return {B, H, T, C / H, 0, 3 * C, 3 * C, T * 3 * C, T * 3 * C, C};
}

Mask attention_mask(const char* op, const AttentionShape& s, const Dropout& dropout) {
  return make_mask(op, dropout, checked_mul(checked_mul(s.H, s.T), s.T));
}

}  // namespace

Product matmul(const Tensor& out, const Tensor& a, Transpose transpose_a, const Tensor& b,
               Transpose transpose_b, const Tensor& bias) {
  for (const Tensor* x : {&out, &a, &b})
    ENSURE(x->rank() == 2 && x->type() == DType::F32, "matmul: ", to_string(x->type()), " ",
           x->shape_text(), " is not a matrix of F32");
  const bool ta = transpose_a == Transpose::Yes, tb = transpose_b == Transpose::Yes;
  const Index M = a.dim(ta ? 1 : 0), K = a.dim(ta ? 0 : 1), N = b.dim(tb ? 0 : 1);
  ENSURE(b.dim(tb ? 1 : 0) == K && out.dim(0) == M && out.dim(1) == N, "matmul: out ",
         out.shape_text(), " from a ", a.shape_text(), ta ? "'" : "", " and b ", b.shape_text(),
         tb ? "'" : "");
  if (!bias.empty()) check_size("matmul", "bias", bias, N);
  return {M, N, K};
}

Rows bias_backward(const Tensor& dbias, const Tensor& dy) {
  const Rows rows = as_matrix("bias_backward", "dy", dy);
  check_size("bias_backward", "dbias", dbias, rows.C);
  return rows;
}

Lookup embedding_forward(const Tensor& x, const Tensor& tokens, const Tensor& wte,
                         const Tensor& wpe, Index T, const Dropout& dropout) {
  const char* op = "embedding_forward";
  const auto [R, C] = as_matrix(op, "x", x);
  const Index V = as_matrix(op, "wte", wte).R;
  check_matrix(op, "wte", wte, {V, C});
  const Index P = as_matrix(op, "wpe", wpe).R;
  check_matrix(op, "wpe", wpe, {P, C});
  ENSURE(T >= 1 && T <= P, op, ": ", T, " tokens of a sample, ", P, " positions");
  check_ids(op, "tokens", tokens, R);
  const Mask mask = make_mask(op, dropout, checked_mul(T, C));
  if (mask.threshold != 0) div_exact(R, T);
  return {R, C, V, mask};
}

Lookup embedding_backward(const Tensor& dwte, const Tensor& dwpe, const Tensor& dx,
                          const Tensor& tokens, Index T, const Dropout& dropout) {
  const char* op = "embedding_backward";
  const auto [R, C] = as_matrix(op, "dx", dx);
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
  return {R, C, V, mask};
}

Rows layernorm_forward(const Tensor& y, const Tensor& mean, const Tensor& rstd, const Tensor& x,
                       const Tensor& gain, const Tensor& bias) {
  const char* op = "layernorm_forward";
  const Rows rows = as_matrix(op, "x", x);
  check_matrix(op, "y", y, rows);
  check_size(op, "mean", mean, rows.R);
  check_size(op, "rstd", rstd, rows.R);
  check_size(op, "gain", gain, rows.C);
  check_size(op, "bias", bias, rows.C);
  return rows;
}

Rows layernorm_backward_input(const Tensor& dx, const Tensor& mean, const Tensor& rstd,
                              const Tensor& dy, const Tensor& x, const Tensor& gain) {
  const char* op = "layernorm_backward_input";
  const Rows rows = as_matrix(op, "x", x);
  check_matrix(op, "dx", dx, rows);
  check_matrix(op, "dy", dy, rows);
  check_size(op, "mean", mean, rows.R);
  check_size(op, "rstd", rstd, rows.R);
  check_size(op, "gain", gain, rows.C);
  return rows;
}

Rows layernorm_backward_weight(const Tensor& dgain, const Tensor& dbias, const Tensor& mean,
                               const Tensor& rstd, const Tensor& dy, const Tensor& x) {
  const char* op = "layernorm_backward_weight";
  const Rows rows = as_matrix(op, "x", x);
  check_matrix(op, "dy", dy, rows);
  check_size(op, "mean", mean, rows.R);
  check_size(op, "rstd", rstd, rows.R);
  check_size(op, "dgain", dgain, rows.C);
  check_size(op, "dbias", dbias, rows.C);
  return rows;
}

void gelu_forward(const Tensor& y, const Tensor& x) {
  check_size("gelu_forward", "y", y, x.size());
  check_size("gelu_forward", "x", x, x.size());
}

void gelu_backward(const Tensor& dx, const Tensor& dy, const Tensor& x) {
  check_size("gelu_backward", "dx", dx, x.size());
  check_size("gelu_backward", "dy", dy, x.size());
  check_size("gelu_backward", "x", x, x.size());
}

Attention attention_forward(const Tensor& out, const Tensor& lse, const Tensor& qkv, Index H,
                            const Dropout& dropout) {
  const char* op = "attention_forward";
  const AttentionShape s = packed_shape(op, qkv, H);
  check_size(op, "out", out, s.B * s.T * s.out_row);
  check_size(op, "lse", lse, s.B * H * s.T);
  return {s, attention_mask(op, s, dropout)};
}

Attention attention_backward(const Tensor& dqkv, const Tensor& delta, const Tensor& dout,
                             const Tensor& out, const Tensor& lse, const Tensor& qkv, Index H,
                             const Dropout& dropout) {
  const char* op = "attention_backward";
  const AttentionShape s = packed_shape(op, qkv, H);
  check_size(op, "dqkv", dqkv, qkv.size());
  check_size(op, "dout", dout, s.B * s.T * s.out_row);
  check_size(op, "out", out, s.B * s.T * s.out_row);
  check_size(op, "lse", lse, s.B * H * s.T);
  check_size(op, "delta", delta, s.B * H * s.T);
  return {s, attention_mask(op, s, dropout)};
}

AttentionShape attention_cached(const Tensor& out, const Tensor& keys, const Tensor& values,
                                const Tensor& qkv, Index first, Index H) {
  const char* op = "attention_cached";
  ENSURE(qkv.rank() == 3, op, ": qkv is ", qkv.shape_text(), "; (R, 3, C) is needed");
  const Index R = qkv.dim(0), C = qkv.dim(2);
  AttentionShape s = packed_shape(op, qkv.reshaped({1, R, qkv.dim(1), C}), H);
  const Index P = as_matrix(op, "keys", keys).R;
  check_matrix(op, "keys", keys, {P, C});
  check_matrix(op, "values", values, {P, C});
  check_size(op, "out", out, R * C);
  ENSURE(first >= 0 && first <= P - R, op, ": ", R, " rows from position ", first,
         " on do not fit in a cache of ", P);
  s.first = first;
  s.kv_row = C;
  return s;
}

Samples residual_forward(const Tensor& out, const Tensor& residual, const Tensor& branch,
                         const Dropout& dropout) {
  const char* op = "residual_forward";
  ENSURE(branch.rank() == 3, op, ": branch is ", branch.shape_text(), "; (B, T, C) is needed");
  check_size(op, "branch", branch, branch.size());
  check_size(op, "out", out, branch.size());
  check_size(op, "residual", residual, branch.size());
  const Index size = branch.dim(1) * branch.dim(2);
  return {branch.dim(0), size, make_mask(op, dropout, size)};
}

Samples residual_backward(const Tensor& dbranch, const Tensor& dout, const Dropout& dropout) {
  const char* op = "residual_backward";
  ENSURE(dout.rank() == 3, op, ": dout is ", dout.shape_text(), "; (B, T, C) is needed");
  check_size(op, "dout", dout, dout.size());
  check_size(op, "dbranch", dbranch, dout.size());
  const Index size = dout.dim(1) * dout.dim(2);
  return {dout.dim(0), size, make_mask(op, dropout, size)};
}

Rows cross_entropy(const Tensor& losses, const Tensor& logits, const Tensor& targets,
                   float smoothing) {
  const Rows rows = as_matrix("cross_entropy", "logits", logits);
  check_size("cross_entropy", "losses", losses, rows.R);
  check_ids("cross_entropy", "targets", targets, rows.R);
  ENSURE(smoothing >= 0 && smoothing <= 1, "cross_entropy: label smoothing is ", smoothing,
         "; it must be in [0, 1]");
  return rows;
}

AdamWNumbers adamw(const Tensor& param, const Tensor& m, const Tensor& v, const Tensor& grad,
                   const AdamWStep& step) {
  for (const Tensor* x : {&param, &m, &v, &grad}) check_size("adamw", "a tensor", *x, param.size());
  ENSURE(step.t >= 1, "adamw: step ", step.t, "; steps count from 1");
  const auto correction = [&](float beta) {
    return static_cast<float>(
        1 / (1 - std::pow(static_cast<double>(beta), static_cast<double>(step.t))));
  };
  return {step.rate,
          static_cast<float>(1 - static_cast<double>(step.rate) * static_cast<double>(step.decay)),
          step.beta1,
          step.beta2,
          step.grad_scale,
          correction(step.beta1),
          correction(step.beta2),
          step.epsilon};
}

void sum_squares(const Tensor& x) { check_size("sum_squares", "x", x, x.size()); }

void fail_id(const char* op, const char* name, Index row, Index id, Index V) {
  Fail(op, ": row ", row, " of ", name, " is ", id, ", outside the vocabulary of ", V,
       "; the data and the model need the same tokenizer");
}

}  // namespace chimera::contract
