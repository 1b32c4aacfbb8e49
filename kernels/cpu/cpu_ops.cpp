// The split of every op over the team. Splits never change a result: each output number is computed
// by one thread, in an order that does not depend on the team.
#include <algorithm>

#include "chimera/base/threads.h"
#include "chimera/ops/contract.h"
#include "chimera/ops/stochastic.h"
#include "isa.h"
#include "matmul.h"

namespace chimera {
namespace cpu {
namespace {

// Units of work are not split finer than about this many numbers per thread.
constexpr Index kGrain = 8192;
Index rows_per_grain(Index columns) {
  return std::max<Index>(1, kGrain / std::max<Index>(1, columns));
}
constexpr Index kColumns = 64;  // sums over rows are split over columns, in steps of this many

// Each id is in [0, V); an error names the first row whose id is not.
void check_ids(const char* op, const char* name, const Tensor& ids, Index V) {
  const std::int32_t* id = ids.size() == 0 ? nullptr : ids.i32();
  bool good = true;
  for (Index r = 0; r < ids.size(); ++r) good &= id[r] >= 0 && id[r] < V;
  if (good) return;
  for (Index r = 0; r < ids.size(); ++r)
    if (id[r] < 0 || id[r] >= V) contract::fail_id(op, name, r, id[r], V);
}

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

  void adamw(std::span<const AdamWTensor> tensors, const AdamWStep& step) override;
  void sum_squares(std::span<double> sums, std::span<const Tensor> tensors) override;
  void sum_rows(Tensor sums, Tensor x) override;
  void convert(Tensor out, Tensor x) override;

 private:
  double sum_squares_of(const Tensor& x, double before) const;
  void dropout_add(float* out, const float* residual, const float* branch, const Mask& mask,
                   Index samples, Index sample_size);

  Kernels k_;
  MatmulCache matmul_;
};

void CpuOps::matmul(Tensor out, Tensor a, Transpose transpose_a, Tensor b, Transpose transpose_b,
                    Write mode, Tensor bias) {
  const auto [M, N, K] = contract::matmul(out, a, transpose_a, b, transpose_b, bias);
  if (M == 0 || N == 0) return;
  if (K > 0)
    return matmul_.run(out.f32(), a.f32(), transpose_a, b.f32(), transpose_b, mode,
                       bias.empty() ? nullptr : bias.f32(), M, N, K);
  for (Index i = 0; i < M * N; ++i)
    out.f32()[i] = (mode == Write::Add ? out.f32()[i] : 0) + (bias.empty() ? 0 : bias.f32()[i % N]);
}

void CpuOps::bias_backward(Tensor dbias, Tensor dy) {
  const auto [R, N] = contract::bias_backward(dbias, dy);
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
  const auto [R, C, V, mask] = contract::embedding_forward(x, tokens, wte, wpe, T, dropout);
  check_ids("embedding_forward", "tokens", tokens, V);
  parallel_for(R, rows_per_grain(C), [&, C = C](Index begin, Index end) {
    k_.embedding_forward(x.f32(), tokens.i32(), wte.f32(), wpe.f32(), T, C, begin, end);
  });
  if (mask.threshold != 0) dropout_add(x.f32(), nullptr, x.f32(), mask, div_exact(R, T), T * C);
}

void CpuOps::embedding_backward(Tensor dwte, Tensor dwpe, Tensor dx, Tensor tokens, Index T,
                                const Dropout& dropout) {
  const auto [R, C, V, mask] = contract::embedding_backward(dwte, dwpe, dx, tokens, T, dropout);
  check_ids("embedding_backward", "tokens", tokens, V);
  if (R == 0) return;
  if (mask.threshold != 0) dropout_add(dx.f32(), nullptr, dx.f32(), mask, div_exact(R, T), T * C);
  float* positions = dwpe.empty() ? nullptr : dwpe.f32();
  parallel_for(C, kColumns, [&, R = R, C = C](Index begin, Index end) {
    k_.embedding_backward(dwte.f32(), positions, dx.f32(), tokens.i32(), R, T, C, begin, end);
  });
}

void CpuOps::layernorm_forward(Tensor y, Tensor mean, Tensor rstd, Tensor x, Tensor gain,
                               Tensor bias, float epsilon) {
  const auto [R, C] = contract::layernorm_forward(y, mean, rstd, x, gain, bias);
  parallel_for(R, rows_per_grain(C), [&, C = C](Index begin, Index end) {
    k_.layernorm_forward(y.f32(), mean.f32(), rstd.f32(), x.f32(), gain.f32(), bias.f32(), epsilon,
                         C, begin, end);
  });
}

void CpuOps::layernorm_backward_input(Tensor dx, Tensor mean, Tensor rstd, Tensor dy, Tensor x,
                                      Tensor gain, Write mode) {
  const auto [R, C] = contract::layernorm_backward_input(dx, mean, rstd, dy, x, gain);
  parallel_for(R, rows_per_grain(C), [&, C = C](Index begin, Index end) {
    k_.layernorm_backward_input(dx.f32(), mean.f32(), rstd.f32(), dy.f32(), x.f32(), gain.f32(),
                                mode == Write::Add, C, begin, end);
  });
}

void CpuOps::layernorm_backward_weight(Tensor dgain, Tensor dbias, Tensor mean, Tensor rstd,
                                       Tensor dy, Tensor x) {
  const auto [R, C] = contract::layernorm_backward_weight(dgain, dbias, mean, rstd, dy, x);
  if (R == 0) return;
  parallel_for(C, kColumns, [&, R = R, C = C](Index begin, Index end) {
    k_.layernorm_backward_weight(dgain.f32(), dbias.f32(), mean.f32(), rstd.f32(), dy.f32(),
                                 x.f32(), R, C, begin, end);
  });
}

void CpuOps::gelu_forward(Tensor y, Tensor x) {
  contract::gelu_forward(y, x);
  parallel_for(x.size(), kGrain,
               [&](Index begin, Index end) { k_.gelu_forward(y.f32(), x.f32(), begin, end); });
}

void CpuOps::gelu_backward(Tensor dx, Tensor dy, Tensor x) {
  contract::gelu_backward(dx, dy, x);
  parallel_for(x.size(), kGrain, [&](Index begin, Index end) {
    k_.gelu_backward(dx.f32(), dy.f32(), x.f32(), begin, end);
  });
}

void CpuOps::attention_forward(Tensor out, Tensor lse, Tensor qkv, Index H,
                               const Dropout& dropout) {
  const contract::Attention given = contract::attention_forward(out, lse, qkv, H, dropout);
  const AttentionShape& s = given.shape;
  if (qkv.size() == 0) return;
  const float* q = qkv.f32();
  parallel_for(s.B * H, 1, [&](Index begin, Index end) {
    k_.attention_forward(out.f32(), lse.f32(), q, q + s.out_row, q + 2 * s.out_row, s, given.mask,
                         begin, end);
  });
}

void CpuOps::attention_backward(Tensor dqkv, Tensor delta, Tensor dout, Tensor out, Tensor lse,
                                Tensor qkv, Index H, const Dropout& dropout) {
  const contract::Attention given =
      contract::attention_backward(dqkv, delta, dout, out, lse, qkv, H, dropout);
  const AttentionShape& s = given.shape;
  const Index C = s.out_row;
  if (qkv.size() == 0) return;
  const float* q = qkv.f32();
  float* dq = dqkv.f32();
  parallel_for(s.B * H, 1, [&](Index begin, Index end) {
    k_.attention_backward(dq, dq + C, dq + 2 * C, delta.f32(), dout.f32(), out.f32(), lse.f32(), q,
                          q + C, q + 2 * C, s, given.mask, begin, end);
  });
}

void CpuOps::attention_cached(Tensor out, Tensor keys, Tensor values, Tensor qkv, Index first,
                              Index H) {
  const AttentionShape s = contract::attention_cached(out, keys, values, qkv, first, H);
  const Index R = s.T, C = s.out_row;
  if (R == 0) return;
  const float* q = qkv.f32();
  for (Index r = 0; r < R; ++r) {
    std::copy_n(q + r * 3 * C + C, C, keys.f32() + (first + r) * C);
    std::copy_n(q + r * 3 * C + 2 * C, C, values.f32() + (first + r) * C);
  }
  parallel_for(H, 1, [&](Index begin, Index end) {
    k_.attention_forward(out.f32(), nullptr, q, keys.f32(), values.f32(), s, Mask{}, begin, end);
  });
}

void CpuOps::residual_forward(Tensor out, Tensor residual, Tensor branch, const Dropout& dropout) {
  const auto [B, size, mask] = contract::residual_forward(out, residual, branch, dropout);
  if (branch.size() > 0) dropout_add(out.f32(), residual.f32(), branch.f32(), mask, B, size);
}

void CpuOps::residual_backward(Tensor dbranch, Tensor dout, const Dropout& dropout) {
  const auto [B, size, mask] = contract::residual_backward(dbranch, dout, dropout);
  if (dout.size() == 0 || (mask.threshold == 0 && dbranch.raw() == dout.raw())) return;
  dropout_add(dbranch.f32(), nullptr, dout.f32(), mask, B, size);
}

void CpuOps::cross_entropy(Tensor losses, Tensor logits, Tensor targets, float smoothing,
                           float scale, Gradient gradient) {
  const auto [R, V] = contract::cross_entropy(losses, logits, targets, smoothing);
  check_ids("cross_entropy", "targets", targets, V);
  parallel_for(R, rows_per_grain(V), [&, V = V](Index begin, Index end) {
    k_.cross_entropy(losses.f32(), logits.f32(), targets.i32(), smoothing, scale,
                     gradient == Gradient::InPlace, V, begin, end);
  });
}

// Elements begin ... end - 1 of the weight, by stochastic rounding.
void round_weight(const AdamWTensor& x, const AdamWStep& step, Index begin, Index end) {
  const float* param = x.param.f32();
  auto* weight = static_cast<std::uint16_t*>(x.weight.raw());
  const bool bf16 = x.weight.type() == DType::BF16;
  for (Index i = begin; i < end;) {
    const Index element = x.first + i, last = std::min(end, i + 4 - element % 4);
    const PhiloxBlock words = rounding_words(step.seed, step.t, x.order, element / 4);
    for (; i < last; ++i) {
      const std::uint32_t word = words[static_cast<std::size_t>((x.first + i) % 4)];
      weight[i] = bf16 ? stochastic_bf16(param[i], word) : stochastic_f16(param[i], word);
    }
  }
}

void CpuOps::adamw(std::span<const AdamWTensor> tensors, const AdamWStep& step) {
  for (const AdamWTensor& x : tensors) {
    const AdamWNumbers numbers = contract::adamw(x, step);
    if (x.param.size() == 0) continue;
    parallel_for(x.param.size(), kGrain, [&](Index begin, Index end) {
      k_.adamw(x.param.f32(), x.m.f32(), x.v.f32(), x.grad.f32(), numbers, begin, end);
      if (x.weight.empty()) return;
      if (step.stochastic)
        round_weight(x, step, begin, end);
      else
        round_into(x.weight.reshaped({x.weight.size()}).rows(begin, end - begin),
                   x.param.f32() + begin);
    });
  }
}

double CpuOps::sum_squares_of(const Tensor& x, double before) const {
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

void CpuOps::sum_squares(std::span<double> sums, std::span<const Tensor> tensors) {
  contract::sum_squares(sums, tensors);
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] = sum_squares_of(tensors[i], sums[i]);
}

void CpuOps::sum_rows(Tensor sums, Tensor x) {
  const auto [R, C] = contract::sum_rows(sums, x);
  for (Index r = 0; r < R; ++r) {
    double sum = 0;
    for (Index c = 0; c < C; ++c) sum += static_cast<double>(x.f32()[r * C + c]);
    sums.as<double>()[r] = sum;
  }
}

void CpuOps::convert(Tensor out, Tensor x) {
  contract::convert(out, x);
  const Tensor to = out.reshaped({out.size()}), from = x.reshaped({x.size()});
  parallel_for(x.size(), kGrain, [&](Index begin, Index end) {
    const Index count = end - begin;
    if (x.type() == DType::F32)
      round_into(to.rows(begin, count), x.f32() + begin);
    else
      widen(out.f32() + begin, from.rows(begin, count));
  });
}

}  // namespace
}  // namespace cpu

std::unique_ptr<Ops> make_cpu_ops(const std::string& isa) {
  return std::make_unique<cpu::CpuOps>(isa);
}

}  // namespace chimera
