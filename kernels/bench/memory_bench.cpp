// The ops that memory limits: bytes that must move at least, over the time.
#include "bench_case.h"

namespace chimera {
namespace {

using bench::Arrays;
using bench::Case;

std::vector<Case> row_cases(Arrays& arrays, const BenchModel& m) {
  const Index B = m.B, T = m.T, C = m.C, R = B * T;
  const double row = 4.0 * static_cast<double>(R * C);
  const Tensor x = arrays.add({B, T, C}), y = arrays.add({B, T, C}), dx = arrays.add({B, T, C});
  const Tensor dy = arrays.add({B, T, C}), gain = arrays.add({C}), bias = arrays.add({C});
  const Tensor dgain = arrays.add({C}), dbias = arrays.add({C}), mean = arrays.add({R});
  const Tensor rstd = arrays.add({R}), wide = arrays.add({R, 4 * C}),
               dwide = arrays.add({R, 4 * C});
  const Tensor ywide = arrays.add({R, 4 * C}), dwide_bias = arrays.add({4 * C});
  const Dropout on{0.1f, 7, 0, 0, DropoutSite::MlpResidual};
  return {
      {"layernorm forward",
       2 * row,
       [=](Ops& o) { o.layernorm_forward(y, mean, rstd, x, gain, bias, 1e-5f); },
       {y, mean, rstd}},
      {"layernorm backward, input",
       3 * row,
       [=](Ops& o) { o.layernorm_backward_input(dx, mean, rstd, dy, x, gain, Write::Set); },
       {dx}},
      {"layernorm backward, weights",
       2 * row,
       [=](Ops& o) { o.layernorm_backward_weight(dgain, dbias, mean, rstd, dy, x); },
       {dgain, dbias}},
      {"gelu forward", 8 * row, [=](Ops& o) { o.gelu_forward(ywide, wide); }, {ywide}},
      {"gelu backward", 12 * row, [=](Ops& o) { o.gelu_backward(dwide, ywide, wide); }, {dwide}},
      {"bias gradient", 4 * row, [=](Ops& o) { o.bias_backward(dwide_bias, wide); }, {dwide_bias}},
      {"residual", 3 * row, [=](Ops& o) { o.residual_forward(y, x, dy, {}); }, {y}},
      {"residual, dropout 0.1", 3 * row, [=](Ops& o) { o.residual_forward(y, x, dy, on); }, {y}}};
}

std::vector<Case> vocabulary_cases(Arrays& arrays, const BenchModel& m) {
  const Index R = m.B * m.T, C = m.C, V = m.V;
  const double row = 4.0 * static_cast<double>(R * C);
  const double logits_bytes = 4.0 * static_cast<double>(R * V);
  const double weights = 4.0 * static_cast<double>(V * C);
  const Tensor x = arrays.add({R, C}), tokens = arrays.add_ids(R, V), losses = arrays.add({R});
  const Tensor wte = arrays.add({V, C}, 0.02f), wpe = arrays.add({m.T, C}, 0.02f);
  const Tensor grad = arrays.add({V, C}), first = arrays.add({V, C}),
               second = arrays.add({V, C}, 0);
  const Tensor logits = arrays.add({R, V}), dwpe = arrays.add({m.T, C});
  const AdamWTensor updated{.param = wte,
                            .m = first,
                            .v = second,
                            .grad = grad,
                            .weight = {},
                            .rate = 1e-5f,
                            .decay = 0.1f};
  const AdamWStep step{.beta2 = 0.95f, .t = 3};
  const Index T = m.T;
  return {{"embedding forward",
           3 * row,
           [=](Ops& o) { o.embedding_forward(x, tokens, wte, wpe, T, {}); },
           {x}},
          {"embedding backward",
           5 * row,
           [=](Ops& o) { o.embedding_backward(grad, dwpe, x, tokens, T, {}); },
           {grad, dwpe}},
          {"cross entropy and gradient",
           2 * logits_bytes,
           [=](Ops& o) { o.cross_entropy(losses, logits, tokens, 0, 1, Gradient::InPlace); },
           {losses, logits}},
          {"adamw",
           7 * weights,
           [=](Ops& o) {
             o.adamw({&updated, 1}, step);
           },
           {wte, first, second}},
          {"sum of squares", weights, [=](Ops& o) { (void)o.sum_squares(grad); }, {}}};
}

}  // namespace

std::string memory_table(const BenchModel& model, const BenchSettings& settings) {
  Arrays arrays;
  std::vector<Case> cases = row_cases(arrays, model);
  for (Case& c : vocabulary_cases(arrays, model)) cases.push_back(std::move(c));
  const auto ops = make_cpu_ops(settings.isa);
  for (const Case& c : cases) check_against_baseline(c, *ops);
  const auto [seconds, limits] = bench::time_cases(cases, *ops, settings);
  std::string table = bench::text("\n### memory: %s, %ld wide, %ld words\n\n", model.name.c_str(),
                                  static_cast<long>(model.C), static_cast<long>(model.V)) +
                      "| op | us | GB/s | of the triad |\n|---|---:|---:|---:|\n";
  for (std::size_t i = 0; i < cases.size(); ++i)
    table += bench::text("| %s | %.1f | %.1f | %.0f %% |\n", cases[i].name.c_str(),
                         1e6 * seconds[i], cases[i].work / seconds[i] / 1e9,
                         100 * cases[i].work / seconds[i] / limits.bytes);
  return table + "\n" + describe_limits(limits);
}

}  // namespace chimera
