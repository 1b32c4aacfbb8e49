#include "op_cases.h"

namespace chimera::bench {
namespace {

using Tensors = std::span<const Tensor>;

// Prototypes of a model's tensors.
struct Shapes {
  Shapes(const BenchModel& m, DType t) : type(t), B(m.B), T(m.T), C(m.C), V(m.V), R(m.B * m.T) {}
  DType type;
  Index B, T, C, V, R;

  Tensor rows() const { return Tensor(nullptr, type, {B, T, C}); }
  Tensor wide() const { return Tensor(nullptr, type, {R, 4 * C}); }
  Tensor vector() const { return Tensor(nullptr, type, {C}); }
  Tensor statistic() const { return Tensor(nullptr, DType::F32, {R}); }
  Tensor gradient() const { return Tensor(nullptr, DType::F32, {C}); }
  Tensor f32(Index rows, Index columns) const {
    return Tensor(nullptr, DType::F32, {rows, columns});
  }
};

constexpr float kEpsilon = 1e-5f;

std::vector<OpCase> norms(const Shapes& s) {
  OpCase f("layernorm forward");
  const auto y = f.writes(s.rows()), mean = f.writes(s.statistic()), rstd = f.writes(s.statistic()),
             x = f.reads(s.rows()), gain = f.reads(s.vector()), bias = f.reads(s.vector());
  f.run = [=](Ops& o, Tensors t) {
    o.layernorm_forward(t[y], t[mean], t[rstd], t[x], t[gain], t[bias], kEpsilon);
  };

  std::vector<OpCase> cases{std::move(f)};
  for (const float probability : {0.0f, 0.1f}) {
    const Dropout dropout{probability, 7, 0, 0, DropoutSite::MlpResidual};
    OpCase r(concat("residual and layernorm forward", probability > 0 ? ", dropout 0.1" : ""));
    const auto ry = r.writes(s.rows()), rmean = r.writes(s.statistic()),
               rrstd = r.writes(s.statistic()), out = r.writes(s.rows()),
               residual = r.reads(s.rows()), branch = r.reads(s.rows()),
               rgain = r.reads(s.vector()), rbias = r.reads(s.vector());
    r.run = [=](Ops& o, Tensors t) {
      o.residual_layernorm_forward(t[ry], t[rmean], t[rrstd], t[out], t[residual], t[branch],
                                   t[rgain], t[rbias], kEpsilon, dropout);
    };
    cases.push_back(std::move(r));
  }

  OpCase b("layernorm backward");
  const auto dx = b.updates(s.rows()), dgain = b.updates(s.gradient()),
             dbias = b.updates(s.gradient()), bmean = b.reads(s.statistic(), 0),
             brstd = b.reads(s.statistic(), 0), dy = b.reads(s.rows()), bx = b.reads(s.rows()),
             bgain = b.reads(s.vector());
  b.prepare = [=](Ops& o, Tensors t) {  // dx is written once more by run
    o.layernorm_forward(t[dx], t[bmean], t[brstd], t[bx], t[bgain], t[bgain], kEpsilon);
  };
  b.run = [=](Ops& o, Tensors t) {
    o.layernorm_backward(t[dx], t[dgain], t[dbias], t[bmean], t[brstd], t[dy], t[bx], t[bgain],
                         Write::Add);
  };
  cases.push_back(std::move(b));
  return cases;
}

std::vector<OpCase> elementwise(const Shapes& s) {
  OpCase gf("gelu forward");
  const auto y = gf.writes(s.wide()), x = gf.reads(s.wide());
  gf.run = [=](Ops& o, Tensors t) { o.gelu_forward(t[y], t[x]); };

  OpCase gb("gelu backward");
  const auto dx = gb.writes(s.wide()), dy = gb.reads(s.wide()), bx = gb.reads(s.wide());
  gb.run = [=](Ops& o, Tensors t) { o.gelu_backward(t[dx], t[dy], t[bx]); };

  OpCase bias("bias gradient");
  const auto dbias = bias.updates(Tensor(nullptr, DType::F32, {4 * s.C})),
             dwide = bias.reads(s.wide());
  bias.run = [=](Ops& o, Tensors t) { o.bias_backward(t[dbias], t[dwide]); };

  std::vector<OpCase> cases{std::move(gf), std::move(gb), std::move(bias)};
  for (const float probability : {0.0f, 0.1f}) {
    const Dropout dropout{probability, 7, 0, 0, DropoutSite::MlpResidual};
    OpCase r(concat("residual", probability > 0 ? ", dropout 0.1" : ""));
    const auto out = r.writes(s.rows()), residual = r.reads(s.rows()), branch = r.reads(s.rows());
    r.run = [=](Ops& o, Tensors t) { o.residual_forward(t[out], t[residual], t[branch], dropout); };
    cases.push_back(std::move(r));
  }
  return cases;
}

std::vector<OpCase> embedding(const Shapes& s) {
  const Tensor wte(nullptr, s.type, {s.V, s.C}), wpe(nullptr, s.type, {s.T, s.C});
  const double row_elements = static_cast<double>(s.R * s.C);
  const Index T = s.T;
  const Tensor flat(nullptr, s.type, {s.R, s.C});
  OpCase f("embedding forward");
  const auto x = f.writes(flat), tokens = f.ids(s.R, s.V), fw = f.reads(wte, 0.02f),
             fp = f.reads(wpe, 0.02f);
  f.operands[fw].moved = row_elements;
  f.run = [=](Ops& o, Tensors t) { o.embedding_forward(t[x], t[tokens], t[fw], t[fp], T, {}); };

  OpCase b("embedding backward");
  const auto dwte = b.updates(s.f32(s.V, s.C)), dwpe = b.updates(s.f32(s.T, s.C)),
             dx = b.reads(flat), ids = b.ids(s.R, s.V);
  b.operands[dwte].moved = 2 * row_elements;
  b.run = [=](Ops& o, Tensors t) { o.embedding_backward(t[dwte], t[dwpe], t[dx], t[ids], T, {}); };
  return {std::move(f), std::move(b)};
}

OpCase loss(const Shapes& s, Index rows) {
  OpCase c("cross entropy and gradient");
  const auto losses = c.writes(Tensor(nullptr, DType::F32, {rows})),
             logits = c.updates(Tensor(nullptr, s.type, {rows, s.V})), targets = c.ids(rows, s.V);
  c.run = [=](Ops& o, Tensors t) {
    o.cross_entropy(t[losses], t[logits], t[targets], 0, 1, Gradient::InPlace);
  };
  c.detail = concat(rows, " x ", s.V);
  return c;
}

// The parameters of two blocks, one tensor each, as a step meets them.
std::vector<Index> block_sizes(Index C) {
  std::vector<Index> sizes;
  for (int block = 0; block < 2; ++block)
    for (const Index n : {C, C, 3 * C * C, 3 * C, C * C, C, C, C, 4 * C * C, 4 * C, 4 * C * C, C})
      sizes.push_back(n);
  return sizes;
}

OpCase adamw(const Shapes& s) {
  OpCase c("adamw");
  struct Numbers {
    std::size_t param, m, v, grad, weight;
  };
  const bool rounds = s.type != DType::F32;
  std::vector<Numbers> all;
  for (const Index n : block_sizes(s.C)) {
    const Tensor f32(nullptr, DType::F32, {n});
    Numbers i{c.updates(f32, 0.02f), c.updates(f32, 1e-3f), c.updates(f32, 0), c.reads(f32, 1e-3f),
              0};
    if (rounds) i.weight = c.writes(Tensor(nullptr, s.type, {n}));
    all.push_back(i);
  }
  c.run = [=](Ops& o, Tensors t) {
    std::vector<AdamWTensor> list;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const Numbers& n = all[i];
      list.push_back({t[n.param], t[n.m], t[n.v], t[n.grad], rounds ? t[n.weight] : Tensor(), 1e-4f,
                      0.1f, static_cast<Index>(i), 0});
    }
    o.adamw(list, {.beta2 = 0.95f, .t = 3});
  };
  c.detail = concat(all.size(), " tensors of two blocks");
  return c;
}

OpCase norm_of_gradients(const Shapes& s) {
  OpCase c("sum of squares");
  std::vector<std::size_t> all;
  for (const Index n : block_sizes(s.C)) all.push_back(c.reads(Tensor(nullptr, DType::F32, {n})));
  c.sums = std::make_shared<std::vector<double>>(all.size());
  c.run = [all, sums = c.sums](Ops& o, Tensors t) {
    std::vector<Tensor> list;
    for (const std::size_t i : all) list.push_back(t[i]);
    sums->assign(list.size(), 0.0);
    o.sum_squares(*sums, list);
  };
  c.detail = concat(all.size(), " tensors of two blocks, with the wait for the sums");
  return c;
}

std::vector<OpCase> others(const Shapes& s) {
  OpCase rows("sums of rows");
  const auto sums = rows.writes(Tensor(nullptr, DType::F64, {s.B})),
             losses = rows.reads(s.f32(s.B, s.T));
  rows.run = [=](Ops& o, Tensors t) { o.sum_rows(t[sums], t[losses]); };
  rows.detail = concat(s.B, " rows of ", s.T);
  std::vector<OpCase> cases{std::move(rows)};
  if (s.type == DType::F32) return cases;
  for (const bool narrow : {true, false}) {
    OpCase c(narrow ? "convert from fp32" : "convert to fp32");
    const Tensor f32 = s.f32(s.R, s.C), compute(nullptr, s.type, {s.R, s.C});
    const auto out = c.writes(narrow ? compute : f32), x = c.reads(narrow ? f32 : compute);
    c.run = [=](Ops& o, Tensors t) { o.convert(t[out], t[x]); };
    cases.push_back(std::move(c));
  }
  return cases;
}

}  // namespace

std::vector<OpCase> memory_cases(const BenchModel& model, DType type, Index head_bytes) {
  const Shapes s(model, type);
  std::vector<OpCase> cases;
  for (std::vector<OpCase> group : {norms(s), elementwise(s), embedding(s), others(s)})
    for (OpCase& c : group) {
      if (c.detail.empty()) c.detail = concat(s.R, " rows of ", s.C);
      cases.push_back(std::move(c));
    }
  cases.push_back(loss(s, head_rows(model, type, head_bytes)));
  cases.push_back(adamw(s));
  cases.push_back(norm_of_gradients(s));
  return cases;
}

}  // namespace chimera::bench
