// GELU, AdamW, sum of squares.
#include "references.h"

using namespace chimera;
using namespace chimera::test;

TEST_CASE("gelu: forward and gradient match float64 at every size up to two vectors and beyond") {
  on_every_machine([](Ops& ops) {
    for (const Index n : {1, 2, 15, 16, 17, 31, 33, 1000, 40001}) {
      Floats x = random_floats(n, 1, 3), dy = random_floats(n, 2), y(x.size()), dx(x.size());
      ops.gelu_forward(tensor(y, {n}), tensor(x, {n}));
      ops.gelu_backward(tensor(dx, {n}), tensor(dy, {n}), tensor(x, {n}));
      CHECK(distance(y, gelu_reference(widen(x))) <= kFp32);
      CHECK(distance(dx, gelu_gradient(widen(dy), widen(x))) <= kFp32);
      ops.gelu_backward(tensor(dy, {n}), tensor(dy, {n}), tensor(x, {n}));
      CHECK(dy == dx);  // in place
    }
  });
}

TEST_CASE("gelu: tails and bad values") {
  on_every_machine([](Ops& ops) {
    Floats x{-1e20f, -50, -9, 9, 50, 1e20f, NAN, INFINITY}, y(x.size()), dx(x.size());
    Floats dy(x.size(), 1.0f);
    const Index n = std::ssize(x);
    ops.gelu_forward(tensor(y, {n}), tensor(x, {n}));
    ops.gelu_backward(tensor(dx, {n}), tensor(dy, {n}), tensor(x, {n}));
    CHECK(std::abs(y[0]) + std::abs(y[1]) + std::abs(y[2]) <= 1e-14);  // gelu(-9) is about -1e-17
    CHECK(Floats(y.begin() + 3, y.begin() + 6) == Floats{9, 50, 1e20f});
    CHECK(std::abs(dx[0]) + std::abs(dx[1]) + std::abs(dx[2]) <= 1e-14);
    CHECK(Floats(dx.begin() + 3, dx.begin() + 6) == Floats{1, 1, 1});
    CHECK(std::isnan(y[6]));
    CHECK(std::isnan(dx[6]));
    CHECK(y[7] == INFINITY);
  });
}

TEST_CASE("adamw: three steps follow the formula, with scale and decay") {
  on_every_machine([](Ops& ops) {
    const Index n = 20011;
    Floats p = random_floats(n, 1), m = random_floats(n, 2, 0.1f), v = random_floats(n, 3, 0.1f),
           g = random_floats(n, 4);
    for (float& x : v) x = x * x;
    Doubles P = widen(p), M = widen(m), V = widen(v);
    AdamWStep s{.beta2 = 0.95f, .grad_scale = 0.5f};
    const AdamWTensor x{.param = tensor(p, {n}),
                        .m = tensor(m, {n}),
                        .v = tensor(v, {n}),
                        .grad = tensor(g, {n}),
                        .weight = {},
                        .rate = 1e-2f,
                        .decay = 0.1f};
    for (s.t = 1; s.t <= 3; ++s.t) {
      ops.adamw({&x, 1}, s);
      const double b1 = s.beta1, b2 = s.beta2, rate = x.rate;
      for (std::size_t i = 0; i < P.size(); ++i) {
        const double grad = static_cast<double>(g[i]) * static_cast<double>(s.grad_scale);
        M[i] = b1 * M[i] + (1 - b1) * grad;
        V[i] = b2 * V[i] + (1 - b2) * grad * grad;
        P[i] -= rate * static_cast<double>(x.decay) * P[i];
        P[i] -= rate * (M[i] / (1 - std::pow(b1, s.t))) /
                (std::sqrt(V[i] / (1 - std::pow(b2, s.t))) + static_cast<double>(s.epsilon));
      }
    }
    // Three steps: a few roundings each.
    CHECK(distance(p, P) <= 1e-6);
    CHECK(distance(m, M) <= 1e-6);
    CHECK(distance(v, V) <= 1e-6);
  });
}

TEST_CASE("sum of squares: double accuracy, blocks in order, not finite where x is not") {
  const Index n = 3 * 4096 + 77;
  Floats x = random_floats(n, 1);
  double expected = 0;
  for (const float v : x) expected += static_cast<double>(v) * static_cast<double>(v);
  on_every_machine([&](Ops& ops) {
    const double sum = ops.sum_squares(tensor(x, {n}));
    CHECK(std::abs(sum - expected) <= 1e-13 * expected);  // sums of 12,000 doubles
    // The blocks add up in order: the whole is the sum of its parts at block borders.
    const auto part = [&](Index first, Index count, double before) {
      return ops.sum_squares(tensor(x, {n}).rows(first, count), before);
    };
    CHECK(part(8192, n - 8192, part(4096, 4096, part(0, 4096, 0))) == sum);
    for (const float bad : {NAN, INFINITY, -INFINITY}) {
      Floats y = x;
      y[5000] = bad;
      CHECK_FALSE(std::isfinite(ops.sum_squares(tensor(y, {n}))));
    }
    CHECK(ops.sum_squares(Tensor(x.data(), DType::F32, {0})) == 0);
  });
}
