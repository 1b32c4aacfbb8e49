// The references themselves: each gradient against central finite differences of its forward.
#include "references.h"

using namespace chimera;
using namespace chimera::test;

namespace {
// Steps of 1e-5 leave a truncation error of about 1e-10 and a rounding error of 1e-16 / 1e-5, both
// relative to third derivatives and values of a few units.
constexpr double kDifferences = 1e-8;

Doubles random_doubles(Index n, std::uint64_t seed) { return widen(random_floats(n, seed)); }
}  // namespace

TEST_CASE("references: layernorm gradients are finite differences") {
  const Index R = 3, C = 7;
  const Doubles x = random_doubles(R * C, 1), gain = random_doubles(C, 2),
                bias = random_doubles(C, 3), dy = random_doubles(R * C, 4);
  const auto d = layernorm_gradients(dy, x, gain, C);
  const auto of_x = [&](const Doubles& v) { return layernorm_reference(v, gain, bias, C); };
  const auto of_gain = [&](const Doubles& v) { return layernorm_reference(x, v, bias, C); };
  const auto of_bias = [&](const Doubles& v) { return layernorm_reference(x, gain, v, C); };
  CHECK(distance(d.x, finite_differences(of_x, x, dy)) <= kDifferences);
  CHECK(distance(d.gain, finite_differences(of_gain, gain, dy)) <= kDifferences);
  CHECK(distance(d.bias, finite_differences(of_bias, bias, dy)) <= kDifferences);
}

TEST_CASE("references: gelu gradient is finite differences") {
  const Doubles x = random_doubles(60, 1), dy = random_doubles(60, 2);
  CHECK(distance(gelu_gradient(dy, x), finite_differences(gelu_reference, x, dy)) <= kDifferences);
}

TEST_CASE("references: attention gradient is finite differences, with dropout too") {
  const AttentionSizes s{2, 2, 5, 3};
  const Doubles qkv = random_doubles(s.B * s.T * 3 * s.C(), 1);
  const Doubles dout = random_doubles(s.B * s.T * s.C(), 2);
  for (const float probability : {0.0f, 0.3f}) {
    const Dropout dropout{probability, 77, 5, 2, DropoutSite::Attention};
    const auto f = [&](const Doubles& v) { return attention_reference(v, s, dropout).out; };
    CHECK(distance(attention_gradient(dout, qkv, s, dropout), finite_differences(f, qkv, dout)) <=
          kDifferences);
  }
}

TEST_CASE("references: cross entropy gradient is finite differences") {
  const Index R = 4, V = 9;
  const Doubles logits = random_doubles(R * V, 1);
  const Ids targets = random_ids(R, V, 2);
  for (const double smoothing : {0.0, 0.1, 1.0}) {
    const auto f = [&](const Doubles& v) {
      return cross_entropy_reference(v, targets, smoothing, V);
    };
    const double scale = 0.7;
    CHECK(distance(cross_entropy_gradient(logits, targets, smoothing, scale, V),
                   finite_differences(f, logits, Doubles(static_cast<std::size_t>(R), scale))) <=
          kDifferences);
  }
}
