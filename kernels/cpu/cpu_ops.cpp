// The split of every op over the team. Splits never change a result: each output number is computed
// by one thread, in an order that does not depend on the team.
#include <algorithm>

#include "chimera/base/threads.h"
#include "chimera/ops/ops.h"
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

  void do_matmul(Tensor out, Tensor a, Transpose transpose_a, Tensor b, Transpose transpose_b,
                 Write mode, Tensor bias, const contract::Product&) override;
  void do_bias_backward(Tensor dbias, Tensor dy, contract::Rows) override;
  void do_embedding_forward(Tensor x, Tensor tokens, Tensor wte, Tensor wpe,
                            const contract::Lookup&) override;
  void do_embedding_backward(Tensor dwte, Tensor dwpe, Tensor dx, Tensor tokens,
                             const contract::Lookup&) override;
  void do_layernorm_forward(Tensor y, Tensor mean, Tensor rstd, Tensor x, Tensor gain, Tensor bias,
                            float epsilon, contract::Rows) override;
  void do_layernorm_backward_input(Tensor dx, Tensor mean, Tensor rstd, Tensor dy, Tensor x,
                                   Tensor gain, Write mode, contract::Rows) override;
  void do_layernorm_backward_weight(Tensor dgain, Tensor dbias, Tensor mean, Tensor rstd, Tensor dy,
                                    Tensor x, contract::Rows) override;
  void do_gelu_forward(Tensor y, Tensor x) override;
  void do_gelu_backward(Tensor dx, Tensor dy, Tensor x) override;
  void do_attention_forward(Tensor out, Tensor lse, Tensor qkv,
                            const contract::Attention&) override;
  void do_attention_backward(Tensor dqkv, Tensor delta, Tensor dout, Tensor out, Tensor lse,
                             Tensor qkv, const contract::Attention&) override;
  void do_attention_cached(Tensor out, Tensor keys, Tensor values, Tensor qkv,
                           const AttentionShape&) override;
  void do_residual_forward(Tensor out, Tensor residual, Tensor branch,
                           const contract::Samples&) override;
  void do_residual_backward(Tensor dbranch, Tensor dout, const contract::Samples&) override;
  void do_cross_entropy(Tensor losses, Tensor logits, Tensor targets, float smoothing, float scale,
                        Gradient, contract::Rows) override;
  void do_adamw(std::span<const AdamWTensor> tensors, const AdamWStep&) override;
  void do_sum_squares(std::span<double> sums, std::span<const Tensor> tensors) override;
  void do_sum_rows(Tensor sums, Tensor x, contract::Rows) override;
  void do_convert(Tensor out, Tensor x) override;

 private:
  double sum_squares_of(const Tensor& x, double before) const;
  void dropout_add(float* out, const float* residual, const float* branch, const Mask& mask,
                   Index samples, Index sample_size);

  Kernels k_;
  MatmulCache matmul_;
};

void CpuOps::do_matmul(Tensor out, Tensor a, Transpose transpose_a, Tensor b, Transpose transpose_b,
                       Write mode, Tensor bias, const contract::Product& size) {
  const auto [M, N, K] = size;
  if (M == 0 || N == 0) return;
  if (K > 0)
    return matmul_.run(out.f32(), a.f32(), transpose_a, b.f32(), transpose_b, mode,
                       bias.empty() ? nullptr : bias.f32(), M, N, K);
  for (Index i = 0; i < M * N; ++i)
    out.f32()[i] = (mode == Write::Add ? out.f32()[i] : 0) + (bias.empty() ? 0 : bias.f32()[i % N]);
}

void CpuOps::do_bias_backward(Tensor dbias, Tensor dy, contract::Rows rows) {
  const auto [R, N] = rows;
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

void CpuOps::do_embedding_forward(Tensor x, Tensor tokens, Tensor wte, Tensor wpe,
                                  const contract::Lookup& size) {
  const auto [R, T, C, V, mask] = size;
  check_ids("embedding_forward", "tokens", tokens, V);
  parallel_for(R, rows_per_grain(C), [&, T = T, C = C](Index begin, Index end) {
    k_.embedding_forward(x.f32(), tokens.i32(), wte.f32(), wpe.f32(), T, C, begin, end);
  });
  if (mask.threshold != 0) dropout_add(x.f32(), nullptr, x.f32(), mask, div_exact(R, T), T * C);
}

void CpuOps::do_embedding_backward(Tensor dwte, Tensor dwpe, Tensor dx, Tensor tokens,
                                   const contract::Lookup& size) {
  const auto [R, T, C, V, mask] = size;
  check_ids("embedding_backward", "tokens", tokens, V);
  if (R == 0) return;
  if (mask.threshold != 0) dropout_add(dx.f32(), nullptr, dx.f32(), mask, div_exact(R, T), T * C);
  float* positions = dwpe.empty() ? nullptr : dwpe.f32();
  parallel_for(C, kColumns, [&, R = R, T = T, C = C](Index begin, Index end) {
    k_.embedding_backward(dwte.f32(), positions, dx.f32(), tokens.i32(), R, T, C, begin, end);
  });
}

void CpuOps::do_layernorm_forward(Tensor y, Tensor mean, Tensor rstd, Tensor x, Tensor gain,
                                  Tensor bias, float epsilon, contract::Rows rows) {
  const auto [R, C] = rows;
  parallel_for(R, rows_per_grain(C), [&, C = C](Index begin, Index end) {
    k_.layernorm_forward(y.f32(), mean.f32(), rstd.f32(), x.f32(), gain.f32(), bias.f32(), epsilon,
                         C, begin, end);
  });
}

void CpuOps::do_layernorm_backward_input(Tensor dx, Tensor mean, Tensor rstd, Tensor dy, Tensor x,
                                         Tensor gain, Write mode, contract::Rows rows) {
  const auto [R, C] = rows;
  parallel_for(R, rows_per_grain(C), [&, C = C](Index begin, Index end) {
    k_.layernorm_backward_input(dx.f32(), mean.f32(), rstd.f32(), dy.f32(), x.f32(), gain.f32(),
                                mode == Write::Add, C, begin, end);
  });
}

void CpuOps::do_layernorm_backward_weight(Tensor dgain, Tensor dbias, Tensor mean, Tensor rstd,
                                          Tensor dy, Tensor x, contract::Rows rows) {
  const auto [R, C] = rows;
  if (R == 0) return;
  parallel_for(C, kColumns, [&, R = R, C = C](Index begin, Index end) {
    k_.layernorm_backward_weight(dgain.f32(), dbias.f32(), mean.f32(), rstd.f32(), dy.f32(),
                                 x.f32(), R, C, begin, end);
  });
}

void CpuOps::do_gelu_forward(Tensor y, Tensor x) {
  parallel_for(x.size(), kGrain,
               [&](Index begin, Index end) { k_.gelu_forward(y.f32(), x.f32(), begin, end); });
}

void CpuOps::do_gelu_backward(Tensor dx, Tensor dy, Tensor x) {
  parallel_for(x.size(), kGrain, [&](Index begin, Index end) {
    k_.gelu_backward(dx.f32(), dy.f32(), x.f32(), begin, end);
  });
}

void CpuOps::do_attention_forward(Tensor out, Tensor lse, Tensor qkv,
                                  const contract::Attention& given) {
  const AttentionShape& s = given.shape;
  if (qkv.size() == 0) return;
  const float* q = qkv.f32();
  parallel_for(s.B * s.H, 1, [&](Index begin, Index end) {
    k_.attention_forward(out.f32(), lse.f32(), q, q + s.out_row, q + 2 * s.out_row, s, given.mask,
                         begin, end);
  });
}

void CpuOps::do_attention_backward(Tensor dqkv, Tensor delta, Tensor dout, Tensor out, Tensor lse,
                                   Tensor qkv, const contract::Attention& given) {
  const AttentionShape& s = given.shape;
  const Index C = s.out_row;
  if (qkv.size() == 0) return;
  const float* q = qkv.f32();
  float* dq = dqkv.f32();
  parallel_for(s.B * s.H, 1, [&](Index begin, Index end) {
    k_.attention_backward(dq, dq + C, dq + 2 * C, delta.f32(), dout.f32(), out.f32(), lse.f32(), q,
                          q + C, q + 2 * C, s, given.mask, begin, end);
  });
}

void CpuOps::do_attention_cached(Tensor out, Tensor keys, Tensor values, Tensor qkv,
                                 const AttentionShape& s) {
  const Index R = s.T, C = s.out_row;
  if (R == 0) return;
  const float* q = qkv.f32();
  for (Index r = 0; r < R; ++r) {
    std::copy_n(q + r * 3 * C + C, C, keys.f32() + (s.first + r) * C);
    std::copy_n(q + r * 3 * C + 2 * C, C, values.f32() + (s.first + r) * C);
  }
  parallel_for(s.H, 1, [&](Index begin, Index end) {
    k_.attention_forward(out.f32(), nullptr, q, keys.f32(), values.f32(), s, Mask{}, begin, end);
  });
}

void CpuOps::do_residual_forward(Tensor out, Tensor residual, Tensor branch,
                                 const contract::Samples& samples) {
  const auto [B, size, mask] = samples;
  if (branch.size() > 0) dropout_add(out.f32(), residual.f32(), branch.f32(), mask, B, size);
}

void CpuOps::do_residual_backward(Tensor dbranch, Tensor dout, const contract::Samples& samples) {
  const auto [B, size, mask] = samples;
  if (dout.size() == 0 || (mask.threshold == 0 && dbranch.raw() == dout.raw())) return;
  dropout_add(dbranch.f32(), nullptr, dout.f32(), mask, B, size);
}

void CpuOps::do_cross_entropy(Tensor losses, Tensor logits, Tensor targets, float smoothing,
                              float scale, Gradient gradient, contract::Rows rows) {
  const auto [R, V] = rows;
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

void CpuOps::do_adamw(std::span<const AdamWTensor> tensors, const AdamWStep& step) {
  for (const AdamWTensor& x : tensors) {
    const AdamWNumbers numbers = contract::adamw_numbers(x, step);
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

void CpuOps::do_sum_squares(std::span<double> sums, std::span<const Tensor> tensors) {
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] = sum_squares_of(tensors[i], sums[i]);
}

void CpuOps::do_sum_rows(Tensor sums, Tensor x, contract::Rows rows) {
  const auto [R, C] = rows;
  for (Index r = 0; r < R; ++r) {
    double sum = 0;
    for (Index c = 0; c < C; ++c) sum += static_cast<double>(x.f32()[r * C + c]);
    sums.as<double>()[r] = sum;
  }
}

void CpuOps::do_convert(Tensor out, Tensor x) {
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
