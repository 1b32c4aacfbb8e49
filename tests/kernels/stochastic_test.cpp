// Stochastic rounding of 16-bit weights in AdamW.
#include "chimera/ops/stochastic.h"

#include "kernel_support.h"

using namespace chimera;
using namespace chimera::test;

namespace {

using Bits = std::vector<std::uint16_t>;

float value(DType type, std::uint16_t bits) {
  return type == DType::BF16 ? from_bf16(bits) : from_f16(bits);
}

// What a step that leaves the parameters as they are makes of them in 16 bits: elements `first` to
// `first + count`.
Bits rounded(Ops& ops, DType type, const Floats& param, AdamWStep step, Index first, Index count,
             Index order = 7) {
  Floats p(param.begin() + first, param.begin() + first + count);
  Floats m(p.size()), v(p.size()), grad(p.size());
  Bits weight(p.size());
  const AdamWTensor x{.param = tensor(p, {count}),
                      .m = tensor(m, {count}),
                      .v = tensor(v, {count}),
                      .grad = tensor(grad, {count}),
                      .weight = Tensor(weight.data(), type, {count}),
                      .rate = 0,
                      .decay = 0,
                      .order = order,
                      .first = first};
  ops.adamw(std::span(&x, 1), step);
  CHECK(p == Floats(param.begin() + first, param.begin() + first + count));
  return weight;
}

// Numbers of the sizes of weights, and below fp16's smallest normal number.
Floats numbers() {
  Floats x = random_floats(96, 11, 0.05f);
  for (const float tiny : random_floats(32, 12, 1e-5f)) x.push_back(tiny);
  return x;
}

}  // namespace

// The larger variance of a draw between neighbours u apart is u^2 / 4: the mean of n draws lies
// within 5 standard deviations, 5 u / (2 sqrt(n)), but for one number in two million.
TEST_CASE("stochastic rounding gives one of the two neighbours, and the mean is exact") {
  constexpr Index kDraws = 4096;
  const auto ops = test_ops();
  const Floats x = numbers();
  for (const DType type : {DType::BF16, DType::F16}) {
    std::vector<double> sums(x.size());
    std::vector<float> least(x.size(), INFINITY), most(x.size(), -INFINITY);
    for (Index t = 1; t <= kDraws; ++t) {
      const Bits got =
          rounded(*ops, type, x, {.t = t, .stochastic = true, .seed = 3}, 0, std::ssize(x));
      for (std::size_t i = 0; i < x.size(); ++i) {
        const float y = value(type, got[i]);
        sums[i] += static_cast<double>(y);
        least[i] = std::min(least[i], y), most[i] = std::max(most[i], y);
      }
    }
    for (std::size_t i = 0; i < x.size(); ++i) {
      INFO(to_string(type) << " of " << x[i] << ": from " << least[i] << " to " << most[i]);
      const double gap = static_cast<double>(most[i]) - static_cast<double>(least[i]);
      CHECK(least[i] <= x[i]);
      CHECK(most[i] >= x[i]);
      // No number of the type lies between the two that were drawn.
      const float between = (least[i] + most[i]) / 2;
      std::uint16_t nearest = 0;
      round_into(Tensor(&nearest, type, {1}), &between);
      CHECK((value(type, nearest) == least[i] || value(type, nearest) == most[i]));
      CHECK(std::abs(sums[i] / kDraws - static_cast<double>(x[i])) <=
            5 * gap / (2 * std::sqrt(static_cast<double>(kDraws))));
    }
  }
}

TEST_CASE("stochastic rounding is a function of seed, step, parameter and element alone") {
  const auto ops = test_ops();
  const Floats x = random_floats(1003, 5, 0.1f);
  const AdamWStep step{.t = 9, .stochastic = true, .seed = 3};
  for (const DType type : {DType::BF16, DType::F16}) {
    const Bits whole = rounded(*ops, type, x, step, 0, std::ssize(x));
    for (const Index cut : {1, 4, 257, 1000}) {  // shards, wherever they are cut
      Bits parts = rounded(*ops, type, x, step, 0, cut);
      const Bits rest = rounded(*ops, type, x, step, cut, std::ssize(x) - cut);
      parts.insert(parts.end(), rest.begin(), rest.end());
      CHECK(parts == whole);
    }
    AdamWStep other = step;
    other.t = 10;
    CHECK(rounded(*ops, type, x, other, 0, std::ssize(x)) != whole);
    other = step, other.seed = 4;
    CHECK(rounded(*ops, type, x, other, 0, std::ssize(x)) != whole);
    CHECK(rounded(*ops, type, x, step, 0, std::ssize(x), 8) != whole);
    // To nearest where it is not asked for; and what the type has stays what it is.
    other = step, other.stochastic = false;
    const Bits nearest = rounded(*ops, type, x, other, 0, std::ssize(x));
    Bits expected(x.size());
    round_into(Tensor(expected.data(), type, {std::ssize(x)}), x.data());
    CHECK(nearest == expected);
    Floats exact(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) exact[i] = value(type, nearest[i]);
    CHECK(rounded(*ops, type, exact, step, 0, std::ssize(x)) == nearest);
  }
}
