#include "chimera/ops/contract.h"

#include <cmath>

#include "chimera/base/rng.h"

namespace chimera::contract {
namespace {

bool is_narrow(DType type) { return type == DType::BF16 || type == DType::F16; }

// The type of the op's activations, their gradients and weights, which is x's.
DType storage_of(const char* op, const char* name, const Tensor& x) {
  ENSURE(x.type() == DType::F32 || is_narrow(x.type()), op, ": ", name, " is ", to_string(x.type()),
         " ", x.shape_text(), "; F32, BF16 or F16 is needed");
  return x.type();
}

// x as rows of its last dimension; of `type` and rank 1 to 4.
Rows as_matrix(const char* op, const char* name, const Tensor& x, DType type = DType::F32) {
  ENSURE(x.type() == type && x.rank() >= 1, op, ": ", name, " is ", to_string(x.type()), " ",
         x.shape_text(), "; rows of ", to_string(type), " are needed");
  Index rows = 1;
  for (int i = 0; i + 1 < x.rank(); ++i) rows *= x.dim(i);
  return {rows, x.dim(-1)};
}

// x is of `type` and has `size` numbers.
void check_size(const char* op, const char* name, const Tensor& x, Index size,
                DType type = DType::F32) {
  ENSURE(x.type() == type && x.size() == size && !(x.rank() == 0 && size > 0), op, ": ", name,
         " is ", to_string(x.type()), " ", x.shape_text(), "; ", size, " numbers of ",
         to_string(type), " are needed");
}

void check_matrix(const char* op, const char* name, const Tensor& x, Rows shape,
                  DType type = DType::F32) {
  const Rows m = as_matrix(op, name, x, type);
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

Mask attention_mask(const char* op, const AttentionShape& s, const Dropout& dropout) {
  return make_mask(op, dropout, checked_mul(checked_mul(s.H, s.T), s.T));
}

}  // namespace

Product matmul(const Tensor& out, const Tensor& a, Transpose transpose_a, const Tensor& b,
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

Rows bias_backward(const Tensor& dbias, const Tensor& dy) {
  const Rows rows = as_matrix("bias_backward", "dy", dy, storage_of("bias_backward", "dy", dy));
  check_size("bias_backward", "dbias", dbias, rows.C);
  return rows;
}

Lookup embedding_forward(const Tensor& x, const Tensor& tokens, const Tensor& wte,
                         const Tensor& wpe, Index T, const Dropout& dropout) {
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
  return {R, C, V, mask};
}

Lookup embedding_backward(const Tensor& dwte, const Tensor& dwpe, const Tensor& dx,
                          const Tensor& tokens, Index T, const Dropout& dropout) {
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
  return {R, C, V, mask};
}

Rows layernorm_forward(const Tensor& y, const Tensor& mean, const Tensor& rstd, const Tensor& x,
                       const Tensor& gain, const Tensor& bias) {
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

Rows layernorm_backward_input(const Tensor& dx, const Tensor& mean, const Tensor& rstd,
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

Rows layernorm_backward_weight(const Tensor& dgain, const Tensor& dbias, const Tensor& mean,
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

void gelu_forward(const Tensor& y, const Tensor& x) {
  const DType type = storage_of("gelu_forward", "y", y);
  check_size("gelu_forward", "y", y, x.size(), type);
  check_size("gelu_forward", "x", x, x.size(), type);
}

void gelu_backward(const Tensor& dx, const Tensor& dy, const Tensor& x) {
  const DType type = storage_of("gelu_backward", "dx", dx);
  check_size("gelu_backward", "dx", dx, x.size(), type);
  check_size("gelu_backward", "dy", dy, x.size(), type);
  check_size("gelu_backward", "x", x, x.size(), type);
}

Attention attention_forward(const Tensor& out, const Tensor& lse, const Tensor& qkv, Index H,
                            const Dropout& dropout) {
  const char* op = "attention_forward";
  const AttentionShape s = packed_shape(op, qkv, H);
  check_size(op, "out", out, s.B * s.T * s.out_row, qkv.type());
  check_size(op, "lse", lse, s.B * H * s.T);
  return {s, attention_mask(op, s, dropout)};
}

Attention attention_backward(const Tensor& dqkv, const Tensor& delta, const Tensor& dout,
                             const Tensor& out, const Tensor& lse, const Tensor& qkv, Index H,
                             const Dropout& dropout) {
  const char* op = "attention_backward";
  const AttentionShape s = packed_shape(op, qkv, H);
  check_size(op, "dqkv", dqkv, qkv.size(), qkv.type());
  check_size(op, "dout", dout, s.B * s.T * s.out_row, qkv.type());
  check_size(op, "out", out, s.B * s.T * s.out_row, qkv.type());
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
  const Index P = as_matrix(op, "keys", keys, qkv.type()).R;
  check_matrix(op, "keys", keys, {P, C}, qkv.type());
  check_matrix(op, "values", values, {P, C}, qkv.type());
  check_size(op, "out", out, R * C, qkv.type());
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
  const DType type = storage_of(op, "branch", branch);
  check_size(op, "out", out, branch.size(), type);
  check_size(op, "residual", residual, branch.size(), type);
  const Index size = branch.dim(1) * branch.dim(2);
  return {branch.dim(0), size, make_mask(op, dropout, size)};
}

Samples residual_backward(const Tensor& dbranch, const Tensor& dout, const Dropout& dropout) {
  const char* op = "residual_backward";
  ENSURE(dout.rank() == 3, op, ": dout is ", dout.shape_text(), "; (B, T, C) is needed");
  check_size(op, "dbranch", dbranch, dout.size(), storage_of(op, "dout", dout));
  const Index size = dout.dim(1) * dout.dim(2);
  return {dout.dim(0), size, make_mask(op, dropout, size)};
}

Rows cross_entropy(const Tensor& losses, const Tensor& logits, const Tensor& targets,
                   float smoothing) {
  const Rows rows =
      as_matrix("cross_entropy", "logits", logits, storage_of("cross_entropy", "logits", logits));
  check_size("cross_entropy", "losses", losses, rows.R);
  check_ids("cross_entropy", "targets", targets, rows.R);
  ENSURE(smoothing >= 0 && smoothing <= 1, "cross_entropy: label smoothing is ", smoothing,
         "; it must be in [0, 1]");
  return rows;
}

AdamWNumbers adamw(const AdamWTensor& x, const AdamWStep& step) {
  const Index size = x.param.size();
  for (const Tensor* t : {&x.param, &x.m, &x.v, &x.grad}) check_size("adamw", "a tensor", *t, size);
  ENSURE(x.weight.empty() || (is_narrow(x.weight.type()) && x.weight.size() == size),
         "adamw: weight is ", to_string(x.weight.type()), " ", x.weight.shape_text(), "; ", size,
         " numbers of BF16 or F16 are needed");
  ENSURE(step.t >= 1, "adamw: step ", step.t, "; steps count from 1");
  ENSURE(x.order >= 0 && x.order < Index{1} << 31 && x.first >= 0 &&
             checked_add(x.first, size) <= Index{1} << 34,
         "adamw: elements ", x.first, " to ", x.first + size, " of parameter ", x.order,
         "; random numbers are there for 2^34 of each of 2^31");
  const auto correction = [&](float beta) {
    return static_cast<float>(
        1 / (1 - std::pow(static_cast<double>(beta), static_cast<double>(step.t))));
  };
  return {x.rate,
          static_cast<float>(1 - static_cast<double>(x.rate) * static_cast<double>(x.decay)),
          step.beta1,
          step.beta2,
          step.grad_scale,
          correction(step.beta1),
          correction(step.beta2),
          step.epsilon};
}

void sum_squares(std::span<const double> sums, std::span<const Tensor> tensors) {
  ENSURE(sums.size() == tensors.size(), "sum_squares: ", sums.size(), " sums of ", tensors.size(),
         " tensors");
  for (const Tensor& x : tensors) check_size("sum_squares", "x", x, x.size());
}

Rows sum_rows(const Tensor& sums, const Tensor& x) {
  const Rows rows = as_matrix("sum_rows", "x", x);
  ENSURE(sums.type() == DType::F64 && sums.size() == rows.R, "sum_rows: sums are ",
         to_string(sums.type()), " ", sums.shape_text(), "; ", rows.R, " of F64 are needed");
  return rows;
}

void convert(const Tensor& out, const Tensor& x) {
  ENSURE((out.type() == DType::F32 && is_narrow(x.type())) ||
             (is_narrow(out.type()) && x.type() == DType::F32),
         "convert: from ", to_string(x.type()), " to ", to_string(out.type()),
         "; one of them must be F32, the other BF16 or F16");
  ENSURE(out.size() == x.size(), "convert: out is ", out.shape_text(), ", x is ", x.shape_text());
}

void fail_id(const char* op, const char* name, Index row, Index id, Index V) {
  Fail(op, ": row ", row, " of ", name, " is ", id, ", outside the vocabulary of ", V,
       "; the data and the model need the same tokenizer");
}

}  // namespace chimera::contract
