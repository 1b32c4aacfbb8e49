#include "op_cases.h"

#include <algorithm>

namespace chimera::bench {

double OpCase::bytes() const {
  double bytes = 0;
  for (const Operand& o : operands) bytes += o.moved * static_cast<double>(size_of(o.like.type()));
  return bytes;
}

std::size_t OpCase::reads(Tensor like, float deviation) {
  operands.push_back({like, static_cast<double>(like.size()), false, deviation, 0});
  return operands.size() - 1;
}
std::size_t OpCase::writes(Tensor like) {
  operands.push_back({like, static_cast<double>(like.size()), true, 0, 0});
  return operands.size() - 1;
}
std::size_t OpCase::updates(Tensor like, float deviation) {
  operands.push_back({like, 2 * static_cast<double>(like.size()), true, deviation, 0});
  return operands.size() - 1;
}
std::size_t OpCase::ids(Index n, Index below) {
  operands.push_back({Tensor(nullptr, DType::I32, {n}), static_cast<double>(n), false, 0, below});
  return operands.size() - 1;
}

Index head_rows(const BenchModel& model, DType type, Index head_bytes) {
  return std::clamp<Index>(head_bytes / checked_mul(model.V, size_of(type)), 1, model.B * model.T);
}

std::vector<OpCase> attention_cases(const BenchModel& model, DType type) {
  const Index B = model.B, T = model.T, H = model.H, C = model.C;
  const Tensor x(nullptr, type, {B, T, C}), packed(nullptr, type, {B, T, 3, C}),
      rows(nullptr, DType::F32, {B, H, T});
  // Two products of head-size vectors per (query, key) pair that the mask leaves; five backward.
  const double forward = 4.0 * static_cast<double>(B * C) * static_cast<double>(T * (T + 1) / 2);
  std::vector<OpCase> cases;
  for (const float probability : {0.0f, 0.1f}) {
    const Dropout dropout{probability, 7, 0, 0, DropoutSite::Attention};
    const std::string with = probability > 0 ? ", dropout 0.1" : "";
    const std::string detail = concat(H, " heads of ", C / H);
    OpCase f("attention forward" + with);
    const auto out = f.writes(x), lse = f.writes(rows), qkv = f.reads(packed);
    f.run = [=](Ops& o, std::span<const Tensor> t) {
      o.attention_forward(t[out], t[lse], t[qkv], H, dropout);
    };
    f.flops = forward;
    f.detail = detail;
    cases.push_back(std::move(f));

    OpCase b("attention backward" + with);
    const auto dqkv = b.writes(packed), delta = b.reads(rows, 0), dout = b.reads(x);
    const auto saved = b.reads(x, 0), saved_lse = b.reads(rows, 0), input = b.reads(packed);
    b.prepare = [=](Ops& o, std::span<const Tensor> t) {
      o.attention_forward(t[saved], t[saved_lse], t[input], H, dropout);
    };
    b.run = [=](Ops& o, std::span<const Tensor> t) {
      o.attention_backward(t[dqkv], t[delta], t[dout], t[saved], t[saved_lse], t[input], H,
                           dropout);
    };
    b.flops = 2.5 * forward;
    b.detail = detail;
    cases.push_back(std::move(b));
  }
  return cases;
}

}  // namespace chimera::bench
