// Matrix products at the shapes of a model's linear layers.
#include <cmath>

#include "bench_case.h"
#include "chimera/base/rng.h"

namespace chimera {
namespace {

using bench::Arrays;
using bench::Case;
using bench::text;

struct Layer {
  std::string name;
  Index in, out;
  bool transposed;  // the weight is (out, in), as the head's
};

// out = a' b' at 64 places, in double.
void check_product(const Tensor& out, const Tensor& a, Transpose ta, const Tensor& b, Transpose tb,
                   const std::string& name) {
  const Index M = out.dim(0), N = out.dim(1), K = a.dim(ta == Transpose::Yes ? 0 : 1);
  for (Index i = 0; i < 64; ++i) {
    const Index m = permute_index(i % M, M, 1, 0), n = permute_index(i % N, N, 2, 0);
    double sum = 0, size = 0;
    for (Index k = 0; k < K; ++k) {
      const double x = static_cast<double>(a.f32()[ta == Transpose::Yes ? k * M + m : m * K + k]) *
                       static_cast<double>(b.f32()[tb == Transpose::Yes ? n * K + k : k * N + n]);
      sum += x;
      size += x * x;
    }
    // Roundings of fp32 add like a random walk over the K products.
    const double error = std::abs(static_cast<double>(out.f32()[m * N + n]) - sum);
    ENSURE(error <= 1e-5 * std::sqrt(size * static_cast<double>(K)) + 1e-6, name, ": element (", m,
           ", ", n, ") is off by ", error, "; its time means nothing");
  }
}

struct Product {
  Tensor out, a;
  Transpose ta;
  Tensor b;
  Transpose tb;
};

// Forward, input gradient, weight gradient of a layer, with arrays of their own.
std::vector<Product> products_of(const Layer& l, Index R, Arrays& arrays) {
  const Tensor x = arrays.add({R, l.in}), dx = arrays.add({R, l.in});
  const Tensor y = arrays.add({R, l.out}), dy = arrays.add({R, l.out});
  const auto weight = [&] {
    return l.transposed ? arrays.add({l.out, l.in}) : arrays.add({l.in, l.out});
  };
  const Tensor w = weight(), dw = weight();
  const Transpose no = Transpose::No, yes = Transpose::Yes;
  return {{y, x, no, w, l.transposed ? yes : no},
          {dx, dy, no, w, l.transposed ? no : yes},
          l.transposed ? Product{dw, dy, yes, x, no} : Product{dw, x, yes, dy, no}};
}

}  // namespace

std::string gemm_table(const BenchModel& model, const BenchSettings& settings) {
  const Index R = model.B * model.T, C = model.C;
  const std::vector<Layer> layers{{"qkv", C, 3 * C, false},
                                  {"attention out", C, C, false},
                                  {"mlp in", C, 4 * C, false},
                                  {"mlp out", 4 * C, C, false},
                                  {"head", C, model.V, true}};
  const auto ops = make_cpu_ops(settings.isa);
  Arrays arrays;
  std::vector<Case> cases;
  for (const Layer& l : layers) {
    const auto products = products_of(l, R, arrays);
    for (std::size_t i = 0; i < products.size(); ++i) {
      const Product& p = products[i];
      ops->matmul(p.out, p.a, p.ta, p.b, p.tb, Write::Set);
      check_product(p.out, p.a, p.ta, p.b, p.tb, l.name);
      const Write mode = i == 2 ? Write::Add : Write::Set;
      cases.push_back({l.name,
                       2.0 * static_cast<double>(R * l.in * l.out),
                       [p, mode](Ops& o) { o.matmul(p.out, p.a, p.ta, p.b, p.tb, mode); },
                       {}});
    }
  }
  const auto [seconds, limits] = bench::time_cases(cases, *ops, settings);
  std::string table =
      text("\n### gemm: %s (%s)\n\n", model.name.c_str(), matmul_library().c_str()) +
      "| layer | rows x in x out | forward GFLOP/s | input gradient | weight gradient "
      "|\n|---|---|---:|---:|---:|\n";
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const Layer& l = layers[i / 3];
    if (i % 3 == 0)
      table += text("| %s | %ld x %ld x %ld |", l.name.c_str(), static_cast<long>(R),
                    static_cast<long>(l.in), static_cast<long>(l.out));
    const double flops = cases[i].work / seconds[i];
    table += text(" %.0f (%.0f %%) |", flops / 1e9, 100 * flops / limits.flops);
    if (i % 3 == 2) table += "\n";
  }
  return table + "\n" + describe_limits(limits);
}

}  // namespace chimera
