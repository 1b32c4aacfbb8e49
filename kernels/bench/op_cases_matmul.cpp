#include "op_cases.h"

#include <cmath>

namespace chimera::bench {
namespace {

constexpr Transpose kNo = Transpose::No, kYes = Transpose::Yes;

// What all products of a layer (R, in) -> (R, out) share.
struct Layer {
  std::string name;
  DType type;
  Index R, in, out;

  Tensor of(Index rows, Index columns) const { return Tensor(nullptr, type, {rows, columns}); }
  Tensor gradient(Index rows, Index columns) const {
    return Tensor(nullptr, DType::F32, {rows, columns});
  }
  // A deviation that keeps sums of K products near 1.
  static float scale(Index K) { return 1 / std::sqrt(static_cast<float>(K)); }
  OpCase start(const std::string& part) const {
    OpCase c(name + part);
    c.flops = 2.0 * static_cast<double>(R) * static_cast<double>(in) * static_cast<double>(out);
    c.detail = concat(R, " x ", in, " x ", out);
    return c;
  }
};

OpCase forward(const Layer& l) {
  OpCase c = l.start(", forward");
  const auto y = c.writes(l.of(l.R, l.out)), x = c.reads(l.of(l.R, l.in)),
             w = c.reads(l.of(l.in, l.out), Layer::scale(l.in)),
             bias = c.reads(Tensor(nullptr, l.type, {l.out}));
  c.run = [=](Ops& o, std::span<const Tensor> t) {
    o.matmul(t[y], t[x], kNo, t[w], kNo, Write::Set, t[bias]);
  };
  return c;
}

OpCase input_gradient(const Layer& l) {
  OpCase c = l.start(", input gradient");
  const auto dx = c.writes(l.of(l.R, l.in)), dy = c.reads(l.of(l.R, l.out)),
             w = c.reads(l.of(l.in, l.out), Layer::scale(l.out));
  c.run = [=](Ops& o, std::span<const Tensor> t) {
    o.matmul(t[dx], t[dy], kNo, t[w], kYes, Write::Set);
  };
  return c;
}

OpCase weight_gradient(const Layer& l) {
  OpCase c = l.start(", weight and bias gradient");
  const auto dw = c.updates(l.gradient(l.in, l.out)),
             dbias = c.updates(Tensor(nullptr, DType::F32, {l.out})), x = c.reads(l.of(l.R, l.in)),
             dy = c.reads(l.of(l.R, l.out), Layer::scale(l.R));
  c.run = [=](Ops& o, std::span<const Tensor> t) {
    o.linear_backward_weight(t[dw], t[dbias], t[x], t[dy]);
  };
  return c;
}

OpCase gelu_forward(const Layer& l) {
  OpCase c = l.start(" and gelu, forward");
  const auto gelu = c.writes(l.of(l.R, l.out)), pre = c.writes(l.of(l.R, l.out)),
             x = c.reads(l.of(l.R, l.in)), w = c.reads(l.of(l.in, l.out), Layer::scale(l.in)),
             bias = c.reads(Tensor(nullptr, l.type, {l.out}));
  c.run = [=](Ops& o, std::span<const Tensor> t) {
    o.linear_gelu_forward(t[gelu], t[pre], t[x], t[w], t[bias]);
  };
  return c;
}

// Of the layer behind the gelu: its input gradient goes on through the gelu.
OpCase gelu_backward(const Layer& l) {
  OpCase c = l.start(", input gradient through gelu");
  const auto dpre = c.writes(l.of(l.R, l.in)), dy = c.reads(l.of(l.R, l.out)),
             w = c.reads(l.of(l.in, l.out), Layer::scale(l.out)), pre = c.reads(l.of(l.R, l.in));
  c.run = [=](Ops& o, std::span<const Tensor> t) {
    o.linear_gelu_backward(t[dpre], t[dy], t[w], t[pre]);
  };
  return c;
}

// The head: its weight is the embedding (V, C), used transposed.
std::vector<OpCase> head(const Layer& l) {
  const Tensor x = l.of(l.R, l.in), logits = l.of(l.R, l.out), wte = l.of(l.out, l.in);
  std::vector<OpCase> cases;
  OpCase f = l.start(", forward");
  const auto y = f.writes(logits), fx = f.reads(x), fw = f.reads(wte, Layer::scale(l.in));
  f.run = [=](Ops& o, std::span<const Tensor> t) {
    o.matmul(t[y], t[fx], kNo, t[fw], kYes, Write::Set);
  };
  cases.push_back(std::move(f));
  OpCase d = l.start(", input gradient");
  const auto dx = d.writes(x), dy = d.reads(logits), dw = d.reads(wte, Layer::scale(l.out));
  d.run = [=](Ops& o, std::span<const Tensor> t) {
    o.matmul(t[dx], t[dy], kNo, t[dw], kNo, Write::Set);
  };
  cases.push_back(std::move(d));
  OpCase g = l.start(", weight gradient");
  const auto gw = g.updates(l.gradient(l.out, l.in)), gy = g.reads(logits, Layer::scale(l.R)),
             gx = g.reads(x);
  g.run = [=](Ops& o, std::span<const Tensor> t) {
    o.matmul(t[gw], t[gy], kYes, t[gx], kNo, Write::Add);
  };
  cases.push_back(std::move(g));
  return cases;
}

}  // namespace

std::vector<OpCase> matmul_cases(const BenchModel& model, DType type, Index head_bytes) {
  const Index R = model.B * model.T, C = model.C;
  const Layer qkv{"qkv", type, R, C, 3 * C}, out{"attention out", type, R, C, C},
      in{"mlp in", type, R, C, 4 * C}, last{"mlp out", type, R, 4 * C, C};
  std::vector<OpCase> cases;
  for (const Layer* l : {&qkv, &out, &in, &last}) {
    cases.push_back(l == &in ? gelu_forward(*l) : forward(*l));
    cases.push_back(l == &last ? gelu_backward(*l) : input_gradient(*l));
    cases.push_back(weight_gradient(*l));
  }
  for (OpCase& c : head({"head", type, head_rows(model, type, head_bytes), C, model.V}))
    cases.push_back(std::move(c));
  return cases;
}

}  // namespace chimera::bench
