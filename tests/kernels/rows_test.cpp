// Layer norm, cross entropy and embedding against float64.
#include "references.h"

using namespace chimera;
using namespace chimera::test;

TEST_CASE("layernorm: forward and gradients match float64 at odd widths") {
  on_every_machine([](Ops& ops) {
    for (const auto& [R, C] : {std::pair<Index, Index>{1, 1},
                               {3, 2},
                               {5, 17},
                               {9, 63},
                               {33, 65},
                               {70, 129},
                               {17, 768},
                               {3, 1600}}) {
      INFO(R << " x " << C);
      Floats x = random_floats(R * C, 1), gain = random_floats(C, 2), bias = random_floats(C, 3),
             dy = random_floats(R * C, 4);
      Floats y(x.size()), mean(at(R)), rstd(at(R)), dx = random_floats(R * C, 5);
      Floats dgain = random_floats(C, 6), dbias = random_floats(C, 7);
      const Doubles before_x = widen(dx), before_gain = widen(dgain), before_bias = widen(dbias);
      const Tensor m = tensor(mean, {R}), s = tensor(rstd, {R}), rows = tensor(x, {R, C});
      ops.layernorm_forward(tensor(y, {R, C}), m, s, rows, tensor(gain, {C}), tensor(bias, {C}),
                            1e-5f);
      ops.layernorm_backward_input(tensor(dx, {R, C}), m, s, tensor(dy, {R, C}), rows,
                                   tensor(gain, {C}), Write::Add);
      ops.layernorm_backward_weight(tensor(dgain, {C}), tensor(dbias, {C}), m, s,
                                    tensor(dy, {R, C}), rows);
      auto d = layernorm_gradients(widen(dy), widen(x), widen(gain), C);
      for (std::size_t i = 0; i < d.x.size(); ++i) d.x[i] += before_x[i];
      for (std::size_t i = 0; i < d.gain.size(); ++i) {
        d.gain[i] += before_gain[i];
        d.bias[i] += before_bias[i];
      }
      CHECK(distance(y, layernorm_reference(widen(x), widen(gain), widen(bias), C)) <= kFp32);
      CHECK(distance(dx, d.x) <= kFp32);
      CHECK(distance(dgain, d.gain) <= kFp32);
      CHECK(distance(dbias, d.bias) <= kFp32);
    }
  });
}

// A mean of 1,000 deviations costs 10 bits of every x - mean, no more: the variance is summed
// around the mean.
TEST_CASE("layernorm: a large mean does not cancel the variance") {
  on_every_machine([](Ops& ops) {
    const Index C = 768;
    Floats x = random_floats(C, 1), gain(at(C), 1.0f), bias(at(C), 0.0f), y(x.size()), m(1), s(1);
    for (float& v : x) v += 1000;
    ops.layernorm_forward(tensor(y, {1, C}), tensor(m, {1}), tensor(s, {1}), tensor(x, {1, C}),
                          tensor(gain, {C}), tensor(bias, {C}), 1e-5f);
    CHECK(distance(y, layernorm_reference(widen(x), widen(gain), widen(bias), C)) <= 1e-3);
  });
}

TEST_CASE("cross entropy: losses and gradients match float64, smoothed or not") {
  on_every_machine([](Ops& ops) {
    for (const auto& [R, V] :
         {std::pair<Index, Index>{1, 1}, {3, 2}, {5, 33}, {4, 4099}, {2, 50257}})
      for (const float smoothing : {0.0f, 0.1f, 1.0f}) {
        INFO(R << " x " << V << " smoothing " << smoothing);
        Floats logits = random_floats(R * V, 1, 3), losses(at(R));
        const Doubles before = widen(logits);
        Ids targets = random_ids(R, V, 2);
        ops.cross_entropy(tensor(losses, {R}), tensor(logits, {R, V}), tensor(targets, {R}),
                          smoothing, 0.25f, Gradient::None);
        CHECK(widen(logits) == before);
        CHECK(distance(losses, cross_entropy_reference(before, targets, smoothing, V)) <= kFp32);
        ops.cross_entropy(tensor(losses, {R}), tensor(logits, {R, V}), tensor(targets, {R}),
                          smoothing, 0.25f, Gradient::InPlace);
        const Doubles expected = cross_entropy_gradient(before, targets, smoothing, 0.25, V);
        // One word: the gradient is 0, and so is the reference, to rounding.
        CHECK((V == 1 ? std::abs(static_cast<double>(logits[0])) : distance(logits, expected)) <=
              kFp32);
      }
  });
}

TEST_CASE("cross entropy: huge logits stay finite and bad ones do not hide") {
  on_every_machine([](Ops& ops) {
    const Index V = 4500;
    for (const float huge : {1e4f, -1e4f, 3e38f}) {
      Floats logits(at(V), -huge), losses(1);
      logits[4321] = huge;
      Ids targets{4321};
      ops.cross_entropy(tensor(losses, {1}), tensor(logits, {1, V}), tensor(targets, {1}), 0, 1,
                        Gradient::InPlace);
      // The target alone above all others costs nothing; alone below them, the difference.
      if (huge > 0)
        CHECK(losses[0] == 0);
      else
        CHECK(losses[0] == Approx(2e4 + std::log(4499.0)).epsilon(1e-6));
      for (const float d : logits) REQUIRE(std::isfinite(d));
    }
    for (const Index where : {Index{0}, Index{2047}, Index{2048}, V - 1})
      for (const float bad : {NAN, INFINITY}) {
        Floats logits(at(V), 1.0f), losses(1);
        logits[at(where)] = bad;
        Ids targets{7};
        ops.cross_entropy(tensor(losses, {1}), tensor(logits, {1, V}), tensor(targets, {1}), 0, 1,
                          Gradient::InPlace);
        CHECK_FALSE(std::isfinite(losses[0]));
        CHECK_FALSE(std::isfinite(logits[at(where)]));
      }
  });
}

TEST_CASE("embedding: forward and gradients, equal tokens added in order") {
  on_every_machine([](Ops& ops) {
    for (const Index C : {1, 5, 64, 130}) {
      const Index B = 3, T = 5, R = B * T, V = 4, P = 6;
      Floats wte = random_floats(V * C, 1), wpe = random_floats(P * C, 2), x(at(R * C));
      Ids tokens = random_ids(R, V, 3);
      for (const float probability : {0.0f, 0.25f}) {
        const Dropout dropout{probability, 9, 100, 0, DropoutSite::Embedding};
        ops.embedding_forward(tensor(x, {R, C}), tensor(tokens, {R}), tensor(wte, {V, C}),
                              tensor(wpe, {P, C}), T, dropout);
        Floats dx = random_floats(R * C, 4), dwte = random_floats(V * C, 5),
               dwpe = random_floats(P * C, 6), alone = dwte, dx_alone = dx;
        Doubles y(at(R * C)), d_token = widen(dwte), d_position = widen(dwpe);
        for (Index b = 0; b < B; ++b) {
          const Doubles keep = dropout_multipliers(dropout, b, T * C);
          for (Index e = 0; e < T * C; ++e) {
            const Index r = b * T + e / C, token = tokens[at(r)] * C + e % C;
            y[at(b * T * C + e)] =
                (static_cast<double>(wte[at(token)]) + static_cast<double>(wpe[at(e)])) *
                keep[at(e)];
            const double d = static_cast<double>(dx[at(b * T * C + e)]) * keep[at(e)];
            d_token[at(token)] += d;
            d_position[at(e)] += d;
          }
        }
        CHECK(distance(x, y) <= kFp32);
        ops.embedding_backward(tensor(dwte, {V, C}), tensor(dwpe, {P, C}), tensor(dx, {R, C}),
                               tensor(tokens, {R}), T, dropout);
        CHECK(distance(dwte, d_token) <= kFp32);
        CHECK(distance(dwpe, d_position) <= kFp32);
        ops.embedding_backward(tensor(alone, {V, C}), {}, tensor(dx_alone, {R, C}),
                               tensor(tokens, {R}), T, dropout);
        CHECK(alone == dwte);  // fixed positions change nothing else
      }
    }
  });
}
