// Checks of shapes, and the split of every op over the team. Splits never change a result: each
// output number is computed by one thread, in an order that does not depend on the team.
#include <algorithm>
#include <cmath>

#include "chimera/base/threads.h"
#include "isa.h"
#include "matmul.h"
#include "shapes.h"

namespace chimera {
namespace cpu {
namespace {

// Units of work are not split finer than about this many numbers per thread.
constexpr Index kGrain = 8192;
Index rows_per_grain(Index columns) {
  return std::max<Index>(1, kGrain / std::max<Index>(1, columns));
}
constexpr Index kColumns = 64;  // sums over rows are split over columns, in steps of this many

class CpuOps : public Ops {
 public:
  explicit CpuOps(const std::string& isa) : k_(choose_kernels(isa)) {}

  void matmul(Tensor out, Tensor a, Transpose transpose_a, Tensor b, Transpose transpose_b,
              Write mode, Tensor bias) override;
  void bias_backward(Tensor dbias, Tensor dy) override;

  void embedding_forward(Tensor x, Tensor tokens, Tensor wte, Tensor wpe, Index T,
                         const Dropout& dropout) override;
  void embedding_backward(Tensor dwte, Tensor dwpe, Tensor dx, Tensor tokens, Index T,
                          const Dropout& dropout) override;

  void layernorm_forward(Tensor y, Tensor mean, Tensor rstd, Tensor x, Tensor gain, Tensor bias,
                         float epsilon) override;
  void layernorm_backward_input(Tensor dx, Tensor mean, Tensor rstd, Tensor dy, Tensor x,
                                Tensor gain, Write mode) override;
  void layernorm_backward_weight(Tensor dgain, Tensor dbias, Tensor mean, Tensor rstd, Tensor dy,
                                 Tensor x) override;

  void gelu_forward(Tensor y, Tensor x) override;
  void gelu_backward(Tensor dx, Tensor dy, Tensor x) override;

  void attention_forward(Tensor out, Tensor lse, Tensor qkv, Index H,
                         const Dropout& dropout) override;
  void attention_backward(Tensor dqkv, Tensor delta, Tensor dout, Tensor out, Tensor lse,
                          Tensor qkv, Index H, const Dropout& dropout) override;
  void attention_cached(Tensor out, Tensor keys, Tensor values, Tensor qkv, Index first,
                        Index H) override;

  void residual_forward(Tensor out, Tensor residual, Tensor branch,
                        const Dropout& dropout) override;
  void residual_backward(Tensor dbranch, Tensor dout, const Dropout& dropout) override;

  void cross_entropy(Tensor losses, Tensor logits, Tensor targets, float smoothing, float scale,
                     Gradient gradient) override;

  void adamw(Tensor param, Tensor m, Tensor v, Tensor grad, const AdamWStep& step) override;
  double sum_squares(Tensor x, double before) override;

 private:
  void dropout_add(float* out, const float* residual, const float* branch, const Mask& mask,
                   Index samples, Index sample_size);

  Kernels k_;
  MatmulCache matmul_;
};

void CpuOps::matmul(Tensor out, Tensor a, Transpose transpose_a, Tensor b, Transpose transpose_b,
                    Write mode, Tensor bias) {
  for (const Tensor* x : {&out, &a, &b})
    ENSURE(x->rank() == 2 && x->type() == DType::F32, "matmul: ", to_string(x->type()), " ",
           x->shape_text(), " is not a matrix of F32");
  const bool ta = transpose_a == Transpose::Yes, tb = transpose_b == Transpose::Yes;
  const Index M = a.dim(ta ? 1 : 0), K = a.dim(ta ? 0 : 1), N = b.dim(tb ? 0 : 1);
  ENSURE(b.dim(tb ? 1 : 0) == K && out.dim(0) == M && out.dim(1) == N, "matmul: out ",
         out.shape_text(), " from a ", a.shape_text(), ta ? "'" : "", " and b ", b.shape_text(),
         tb ? "'" : "");
  if (!bias.empty()) check_size("matmul", "bias", bias, N);
  if (M == 0 || N == 0) return;
  if (K > 0)
    return matmul_.run(out.f32(), a.f32(), transpose_a, b.f32(), transpose_b, mode,
                       bias.empty() ? nullptr : bias.f32(), M, N, K);
  for (Index i = 0; i < M * N; ++i)
    out.f32()[i] = (mode == Write::Add ? out.f32()[i] : 0) + (bias.empty() ? 0 : bias.f32()[i % N]);
}

void CpuOps::bias_backward(Tensor dbias, Tensor dy) {
  const auto [R, N] = as_matrix("bias_backward", "dy", dy);
  check_size("bias_backward", "dbias", dbias, N);
  if (R == 0) return;
  parallel_for(N, kColumns, [&, R = R, N = N](Index begin, Index end) {
    k_.bias_backward(dbias.f32(), dy.f32(), R, N, begin, end);
  });
}

void CpuOps::dropout_add(float* out, const float* residual, const float* branch, const Mask& mask,
                         Index samples, Index sample_size) {
  parallel_for(samples * ceil_div(sample_size, kDropoutChunk), 2, [&](Index begin, Index end) {
    k_.dropout_add(out, residual, branch, mask, sample_size, begin, end);
  });
}

void CpuOps::embedding_forward(Tensor x, Tensor tokens, Tensor wte, Tensor wpe, Index T,
                               const Dropout& dropout) {
  const auto [R, C] = as_matrix("embedding_forward", "x", x);
  const Index V = as_matrix("embedding_forward", "wte", wte).rows;
  check_matrix("embedding_forward", "wte", wte, {V, C});
  const Index P = as_matrix("embedding_forward", "wpe", wpe).rows;
  check_matrix("embedding_forward", "wpe", wpe, {P, C});
  ENSURE(T >= 1 && T <= P, "embedding_forward: ", T, " tokens of a sample, ", P, " positions");
  check_ids("embedding_forward", "tokens", tokens, R, V);
  const Mask mask = make_mask("embedding_forward", dropout, checked_mul(T, C));
  parallel_for(R, rows_per_grain(C), [&, C = C](Index begin, Index end) {
    k_.embedding_forward(x.f32(), tokens.i32(), wte.f32(), wpe.f32(), T, C, begin, end);
  });
  if (mask.threshold != 0) dropout_add(x.f32(), nullptr, x.f32(), mask, div_exact(R, T), T * C);
}

void CpuOps::embedding_backward(Tensor dwte, Tensor dwpe, Tensor dx, Tensor tokens, Index T,
                                const Dropout& dropout) {
  const auto [R, C] = as_matrix("embedding_backward", "dx", dx);
  const Index V = as_matrix("embedding_backward", "dwte", dwte).rows;
  check_matrix("embedding_backward", "dwte", dwte, {V, C});
  ENSURE(T >= 1, "embedding_backward: ", T, " tokens of a sample");
  if (!dwpe.empty()) {
    const Index P = as_matrix("embedding_backward", "dwpe", dwpe).rows;
    check_matrix("embedding_backward", "dwpe", dwpe, {P, C});
    ENSURE(T <= P, "embedding_backward: ", T, " tokens of a sample, ", P, " positions");
  }
  check_ids("embedding_backward", "tokens", tokens, R, V);
  const Mask mask = make_mask("embedding_backward", dropout, checked_mul(T, C));
  if (R == 0) return;
  if (mask.threshold != 0) dropout_add(dx.f32(), nullptr, dx.f32(), mask, div_exact(R, T), T * C);
  float* positions = dwpe.empty() ? nullptr : dwpe.f32();
  parallel_for(C, kColumns, [&, R = R, C = C](Index begin, Index end) {
    k_.embedding_backward(dwte.f32(), positions, dx.f32(), tokens.i32(), R, T, C, begin, end);
  });
}

void CpuOps::layernorm_forward(Tensor y, Tensor mean, Tensor rstd, Tensor x, Tensor gain,
                               Tensor bias, float epsilon) {
  const char* op = "layernorm_forward";
  const auto [R, C] = as_matrix(op, "x", x);
  check_matrix(op, "y", y, {R, C});
  check_size(op, "mean", mean, R);
  check_size(op, "rstd", rstd, R);
  check_size(op, "gain", gain, C);
  check_size(op, "bias", bias, C);
  parallel_for(R, rows_per_grain(C), [&, C = C](Index begin, Index end) {
    k_.layernorm_forward(y.f32(), mean.f32(), rstd.f32(), x.f32(), gain.f32(), bias.f32(), epsilon,
                         C, begin, end);
  });
}

void CpuOps::layernorm_backward_input(Tensor dx, Tensor mean, Tensor rstd, Tensor dy, Tensor x,
                                      Tensor gain, Write mode) {
  const char* op = "layernorm_backward_input";
  const auto [R, C] = as_matrix(op, "x", x);
  check_matrix(op, "dx", dx, {R, C});
  check_matrix(op, "dy", dy, {R, C});
  check_size(op, "mean", mean, R);
  check_size(op, "rstd", rstd, R);
  check_size(op, "gain", gain, C);
  parallel_for(R, rows_per_grain(C), [&, C = C](Index begin, Index end) {
    k_.layernorm_backward_input(dx.f32(), mean.f32(), rstd.f32(), dy.f32(), x.f32(), gain.f32(),
                                mode == Write::Add, C, begin, end);
  });
}

void CpuOps::layernorm_backward_weight(Tensor dgain, Tensor dbias, Tensor mean, Tensor rstd,
                                       Tensor dy, Tensor x) {
  const char* op = "layernorm_backward_weight";
  const auto [R, C] = as_matrix(op, "x", x);
  check_matrix(op, "dy", dy, {R, C});
  check_size(op, "mean", mean, R);
  check_size(op, "rstd", rstd, R);
  check_size(op, "dgain", dgain, C);
  check_size(op, "dbias", dbias, C);
  if (R == 0) return;
  parallel_for(C, kColumns, [&, R = R, C = C](Index begin, Index end) {
    k_.layernorm_backward_weight(dgain.f32(), dbias.f32(), mean.f32(), rstd.f32(), dy.f32(),
                                 x.f32(), R, C, begin, end);
  });
}

void CpuOps::gelu_forward(Tensor y, Tensor x) {
  check_size("gelu_forward", "y", y, x.size());
  check_size("gelu_forward", "x", x, x.size());
  parallel_for(x.size(), kGrain,
               [&](Index begin, Index end) { k_.gelu_forward(y.f32(), x.f32(), begin, end); });
}

void CpuOps::gelu_backward(Tensor dx, Tensor dy, Tensor x) {
  check_size("gelu_backward", "dx", dx, x.size());
  check_size("gelu_backward", "dy", dy, x.size());
  check_size("gelu_backward", "x", x, x.size());
  parallel_for(x.size(), kGrain, [&](Index begin, Index end) {
    k_.gelu_backward(dx.f32(), dy.f32(), x.f32(), begin, end);
  });
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

void CpuOps::attention_forward(Tensor out, Tensor lse, Tensor qkv, Index H,
                               const Dropout& dropout) {
  const AttentionShape s = packed_shape("attention_forward", qkv, H);
  check_size("attention_forward", "out", out, s.B * s.T * s.out_row);
  check_size("attention_forward", "lse", lse, s.B * H * s.T);
  const Mask mask = make_mask("attention_forward", dropout, checked_mul(checked_mul(H, s.T), s.T));
  if (qkv.size() == 0) return;
  const float* q = qkv.f32();
  parallel_for(s.B * H, 1, [&](Index begin, Index end) {
    k_.attention_forward(out.f32(), lse.f32(), q, q + s.out_row, q + 2 * s.out_row, s, mask, begin,
                         end);
  });
}

void CpuOps::attention_backward(Tensor dqkv, Tensor delta, Tensor dout, Tensor out, Tensor lse,
                                Tensor qkv, Index H, const Dropout& dropout) {
  const char* op = "attention_backward";
  const AttentionShape s = packed_shape(op, qkv, H);
  const Index C = s.out_row;
  check_size(op, "dqkv", dqkv, qkv.size());
  check_size(op, "dout", dout, s.B * s.T * C);
  check_size(op, "out", out, s.B * s.T * C);
  check_size(op, "lse", lse, s.B * H * s.T);
  check_size(op, "delta", delta, s.B * H * s.T);
  const Mask mask = make_mask(op, dropout, checked_mul(checked_mul(H, s.T), s.T));
  if (qkv.size() == 0) return;
  const float* q = qkv.f32();
  float* dq = dqkv.f32();
  parallel_for(s.B * H, 1, [&](Index begin, Index end) {
    k_.attention_backward(dq, dq + C, dq + 2 * C, delta.f32(), dout.f32(), out.f32(), lse.f32(), q,
                          q + C, q + 2 * C, s, mask, begin, end);
  });
}

void CpuOps::attention_cached(Tensor out, Tensor keys, Tensor values, Tensor qkv, Index first,
                              Index H) {
  const char* op = "attention_cached";
  ENSURE(qkv.rank() == 3, op, ": qkv is ", qkv.shape_text(), "; (R, 3, C) is needed");
  const Index R = qkv.dim(0), C = qkv.dim(2);
  AttentionShape s = packed_shape(op, qkv.reshaped({1, R, qkv.dim(1), C}), H);
  const Index P = as_matrix(op, "keys", keys).rows;
  check_matrix(op, "keys", keys, {P, C});
  check_matrix(op, "values", values, {P, C});
  check_size(op, "out", out, R * C);
  ENSURE(first >= 0 && first <= P - R, op, ": ", R, " rows from position ", first,
         " on do not fit in a cache of ", P);
  if (R == 0) return;
  const float* q = qkv.f32();
  for (Index r = 0; r < R; ++r) {
    std::copy_n(q + r * 3 * C + C, C, keys.f32() + (first + r) * C);
    std::copy_n(q + r * 3 * C + 2 * C, C, values.f32() + (first + r) * C);
  }
  s.first = first;
  s.kv_row = C;
  parallel_for(H, 1, [&](Index begin, Index end) {
    k_.attention_forward(out.f32(), nullptr, q, keys.f32(), values.f32(), s, Mask{}, begin, end);
  });
}

void CpuOps::residual_forward(Tensor out, Tensor residual, Tensor branch, const Dropout& dropout) {
  const char* op = "residual_forward";
  ENSURE(branch.rank() == 3, op, ": branch is ", branch.shape_text(), "; (B, T, C) is needed");
  check_size(op, "branch", branch, branch.size());
  check_size(op, "out", out, branch.size());
  check_size(op, "residual", residual, branch.size());
  const Index sample = branch.dim(1) * branch.dim(2);
  const Mask mask = make_mask(op, dropout, sample);
  if (branch.size() > 0)
    dropout_add(out.f32(), residual.f32(), branch.f32(), mask, branch.dim(0), sample);
}

void CpuOps::residual_backward(Tensor dbranch, Tensor dout, const Dropout& dropout) {
  const char* op = "residual_backward";
  ENSURE(dout.rank() == 3, op, ": dout is ", dout.shape_text(), "; (B, T, C) is needed");
  check_size(op, "dout", dout, dout.size());
  check_size(op, "dbranch", dbranch, dout.size());
  const Index sample = dout.dim(1) * dout.dim(2);
  const Mask mask = make_mask(op, dropout, sample);
  if (dout.size() == 0 || (mask.threshold == 0 && dbranch.raw() == dout.raw())) return;
  dropout_add(dbranch.f32(), nullptr, dout.f32(), mask, dout.dim(0), sample);
}

void CpuOps::cross_entropy(Tensor losses, Tensor logits, Tensor targets, float smoothing,
                           float scale, Gradient gradient) {
  const auto [R, V] = as_matrix("cross_entropy", "logits", logits);
  check_size("cross_entropy", "losses", losses, R);
  check_ids("cross_entropy", "targets", targets, R, V);
  ENSURE(smoothing >= 0 && smoothing <= 1, "cross_entropy: label smoothing is ", smoothing,
         "; it must be in [0, 1]");
  parallel_for(R, rows_per_grain(V), [&, V = V](Index begin, Index end) {
    k_.cross_entropy(losses.f32(), logits.f32(), targets.i32(), smoothing, scale,
                     gradient == Gradient::InPlace, V, begin, end);
  });
}

void CpuOps::adamw(Tensor param, Tensor m, Tensor v, Tensor grad, const AdamWStep& step) {
  for (const Tensor* x : {&param, &m, &v, &grad}) check_size("adamw", "a tensor", *x, param.size());
  ENSURE(step.t >= 1, "adamw: step ", step.t, "; steps count from 1");
  const auto correction = [&](float beta) {
    return static_cast<float>(
        1 / (1 - std::pow(static_cast<double>(beta), static_cast<double>(step.t))));
  };
  const AdamWNumbers numbers{
      step.rate,
      static_cast<float>(1 - static_cast<double>(step.rate) * static_cast<double>(step.decay)),
      step.beta1,
      step.beta2,
      step.grad_scale,
      correction(step.beta1),
      correction(step.beta2),
      step.epsilon};
  parallel_for(param.size(), kGrain, [&](Index begin, Index end) {
    k_.adamw(param.f32(), m.f32(), v.f32(), grad.f32(), numbers, begin, end);
  });
}

double CpuOps::sum_squares(Tensor x, double before) {
  check_size("sum_squares", "x", x, x.size());
  constexpr Index kRound = 512;  // blocks whose sums are held at once
  const Index blocks = ceil_div(x.size(), kSumBlock);
  double total = before;
  for (Index first = 0; first < blocks; first += kRound) {
    double partial[kRound];
    const Index count = std::min(kRound, blocks - first);
    parallel_for(count, 4, [&](Index begin, Index end) {
      k_.sum_squares(partial + begin, x.f32(), x.size(), first + begin, first + end);
    });
    for (Index i = 0; i < count; ++i) total += partial[i];
  }
  return total;
}

}  // namespace
}  // namespace cpu

std::unique_ptr<Ops> make_cpu_ops(const std::string& isa) {
  return std::make_unique<cpu::CpuOps>(isa);
}

}  // namespace chimera
