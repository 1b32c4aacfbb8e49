// Attention, forward and backward, with dropout and without.
#include "bench_case.h"

namespace chimera {

using bench::text;

std::string attention_table(const BenchModel& model, const BenchSettings& settings) {
  const Index B = model.B, T = model.T, H = model.H, C = model.C;
  bench::Arrays arrays;
  const Tensor qkv = arrays.add({B, T, 3, C}), dqkv = arrays.add({B, T, 3, C});
  const Tensor out = arrays.add({B, T, C}), dout = arrays.add({B, T, C});
  const Tensor lse = arrays.add({B, H, T}), delta = arrays.add({B, H, T});
  // Two products of head-size vectors per (query, key) pair that the mask leaves; five backward.
  const double forward = 4.0 * static_cast<double>(B * C) * static_cast<double>(T * (T + 1) / 2);
  std::vector<bench::Case> cases;
  for (const float probability : {0.0f, 0.1f}) {
    const Dropout dropout{probability, 7, 0, 0, DropoutSite::Attention};
    cases.push_back({"attention forward",
                     forward,
                     [=](Ops& o) { o.attention_forward(out, lse, qkv, H, dropout); },
                     {out, lse}});
    cases.push_back(
        {"attention backward",
         2.5 * forward,
         [=](Ops& o) { o.attention_backward(dqkv, delta, dout, out, lse, qkv, H, dropout); },
         {dqkv}});
  }
  const auto ops = make_cpu_ops(settings.isa);
  for (const bench::Case& c : cases) check_against_baseline(c, *ops);
  const auto [seconds, limits] = bench::time_cases(cases, *ops, settings);
  std::string table =
      text("\n### attention: %s, %ld heads of %ld\n\n", model.name.c_str(), static_cast<long>(H),
           static_cast<long>(C / H)) +
      "| dropout | forward ms | of the limit | backward ms | of the limit | backward / forward "
      "|\n|---|---:|---:|---:|---:|---:|\n";
  for (std::size_t i = 0; i < cases.size(); i += 2)
    table += text("| %s | %.3f | %.0f %% | %.3f | %.0f %% | %.2f |\n", i == 0 ? "off" : "0.1",
                  1e3 * seconds[i], 100 * cases[i].work / seconds[i] / limits.flops,
                  1e3 * seconds[i + 1], 100 * cases[i + 1].work / seconds[i + 1] / limits.flops,
                  seconds[i + 1] / seconds[i]);
  return table + "\n" + describe_limits(limits);
}

}  // namespace chimera
