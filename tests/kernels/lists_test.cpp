// Ops over lists of tensors and what surrounds them: AdamW with 16-bit weights, sums of squares,
// sums of rows, conversions.
#include <deque>

#include "chimera/ops/stochastic.h"
#include "kernel_support.h"

using namespace chimera;
using namespace chimera::test;

namespace {

using Bits = std::vector<std::uint16_t>;

// Numbers at which rounding has its cases: both zeros, subnormal and normal numbers of both types,
// the ends of their ranges, infinities.
Floats hard_numbers() {
  Floats x{0.0f,       -0.0f,     1.0f,     -1.0f,        1 + 0x1p-9f, 0x1p-24f, 0x1p-25f,
           0x1.8p-25f, -0x1p-26f, 0x1p-14f, 0x1.ffcp-15f, 65504.0f,    65519.0f, 65520.0f,
           65536.0f,   1e30f,     3.3e38f,  1e-40f,       INFINITY,    -INFINITY};
  const Floats more = random_floats(1000, 5);
  for (std::size_t i = 0; i < more.size(); ++i)
    x.push_back(std::ldexp(more[i], static_cast<int>(i % 60) - 30));
  return x;
}

struct Updated {
  Floats param, m, v, grad;
  Bits weight;
  AdamWTensor tensor(DType type, float rate, Index order, Index first) {
    const Index n = std::ssize(param);
    return {.param = test::tensor(param, {n}),
            .m = test::tensor(m, {n}),
            .v = test::tensor(v, {n}),
            .grad = test::tensor(grad, {n}),
            .weight = type == DType::F32 ? Tensor() : Tensor(weight.data(), type, {n}),
            .rate = rate,
            .decay = 0.1f,
            .order = order,
            .first = first};
  }
};
Updated random_update(Index n, std::uint64_t seed) {
  Updated x{random_floats(n, seed), random_floats(n, seed + 1), random_floats(n, seed + 2),
            random_floats(n, seed + 3), Bits(static_cast<std::size_t>(n))};
  for (float& v : x.v) v *= v;
  return x;
}

std::uint16_t rounded(DType type, float x) { return type == DType::BF16 ? to_bf16(x) : to_f16(x); }

}  // namespace

TEST_CASE("adamw: a list is updated as each of its tensors alone, weights are the rounded master") {
  on_every_machine([](Ops& ops) {
    const AdamWStep step{.beta2 = 0.95f, .grad_scale = 0.5f, .t = 3};
    const Index sizes[] = {1, 7, 4096, 4099, 0, 12289, 64};
    std::deque<Updated> together, alone;
    std::vector<AdamWTensor> list;
    for (std::size_t i = 0; i < std::size(sizes); ++i) {
      const DType type = std::array{DType::F32, DType::BF16, DType::F16}[i % 3];
      const float rate = 0.01f * static_cast<float>(i + 1);
      together.push_back(random_update(sizes[i], 10 * i));
      alone.push_back(together.back());
      list.push_back(together.back().tensor(type, rate, static_cast<Index>(i), 0));
      const AdamWTensor one = alone.back().tensor(type, rate, static_cast<Index>(i), 0);
      ops.adamw({&one, 1}, step);
    }
    ops.adamw(list, step);
    for (std::size_t i = 0; i < together.size(); ++i) {
      INFO("tensor " << i);
      CHECK(together[i].param == alone[i].param);
      CHECK(together[i].m == alone[i].m);
      CHECK(together[i].v == alone[i].v);
      CHECK(together[i].weight == alone[i].weight);
      if (i % 3 == 0) continue;
      for (std::size_t k = 0; k < together[i].param.size(); ++k)
        REQUIRE(together[i].weight[k] == rounded(list[i].weight.type(), together[i].param[k]));
    }
  });
}

// Nothing is added to the parameters, so that the weights are roundings of numbers chosen here.
TEST_CASE("adamw: stochastic rounding gives the specification's bits, wherever a part begins") {
  on_every_machine([](Ops& ops) {
    for (const DType type : {DType::BF16, DType::F16})
      for (const Index first : {0, 1, 2, 3, 4096}) {
        const AdamWStep step{
            .t = (Index{1} << 32) + 7, .stochastic = true, .seed = 0x123456789abcdefull};
        Updated x = random_update(0, 1);
        x.param = hard_numbers();
        x.m = x.v = x.grad = Floats(x.param.size());
        x.weight.resize(x.param.size());
        AdamWTensor t = x.tensor(type, 0, 77, first);
        t.decay = 0;
        ops.adamw({&t, 1}, step);
        CHECK(x.param == hard_numbers());
        for (std::size_t i = 0; i < x.param.size(); ++i) {
          INFO(x.param[i] << " as " << to_string(type) << ", element " << i << " from " << first);
          const auto element = first + static_cast<Index>(i);
          const std::uint32_t word = rounding_words(
              step.seed, step.t, 77, element / 4)[static_cast<std::size_t>(element % 4)];
          REQUIRE(x.weight[i] == (type == DType::BF16 ? stochastic_bf16(x.param[i], word)
                                                      : stochastic_f16(x.param[i], word)));
        }
      }
  });
}

// The mean of n roundings has a standard error of at most half a unit / sqrt(n); five of them.
TEST_CASE("stochastic rounding: neighbours alone, and the right mean") {
  const int n = 20000;
  for (const float x : {1 + 0x1p-10f, -3.1415926f, 1e-3f, 0x1.3p-17f, 0x1.0008p-14f, 1234.5678f}) {
    double bf16 = 0, f16 = 0;
    for (int i = 0; i < n; ++i) {
      const std::uint32_t word = rounding_words(9, 1, 0, i / 4)[static_cast<std::size_t>(i % 4)];
      const std::uint16_t b = stochastic_bf16(x, word), h = stochastic_f16(x, word);
      REQUIRE(std::abs(b - to_bf16(x)) <= 1);
      REQUIRE(std::abs(h - to_f16(x)) <= 1);
      bf16 += static_cast<double>(from_bf16(b)) / n;
      f16 += static_cast<double>(from_f16(h)) / n;
    }
    const double at = static_cast<double>(x), size = std::abs(at);
    const double error = 5 * 0.5 / std::sqrt(double{n});
    INFO(x);
    CHECK(std::abs(bf16 - at) <= error * size * 0x1p-7);
    CHECK(std::abs(f16 - at) <= error * std::max(size * 0x1p-10, 0x1p-24));
  }
}

TEST_CASE("sum of squares: a list continues each sum, and a bad number is in its own sum alone") {
  on_every_machine([](Ops& ops) {
    std::deque<Floats> arrays;
    std::vector<Tensor> list;
    Doubles before, alone;
    for (Index i = 0; i < 70; ++i) {
      const Index n = i % 9 == 5 ? 0 : 1 + i * 317 % 9001;
      arrays.push_back(random_floats(n, static_cast<std::uint64_t>(i)));
      if (i == 40) arrays.back().back() = NAN;
      if (i == 60) arrays.back().front() = -INFINITY;
      list.push_back(tensor(arrays.back(), {n}));
      before.push_back(static_cast<double>(i) / 3);
      alone.push_back(ops.sum_squares(list.back(), before.back()));
    }
    Doubles sums = before;
    ops.sum_squares(sums, list);
    for (std::size_t i = 0; i < sums.size(); ++i) {
      INFO("tensor " << i);
      if (i == 40 || i == 60) {
        CHECK_FALSE(std::isfinite(sums[i]));
        continue;
      }
      CHECK(sums[i] == alone[i]);
      double expected = before[i];
      for (const float v : arrays[i]) expected += static_cast<double>(v) * static_cast<double>(v);
      CHECK(std::abs(sums[i] - expected) <= 1e-13 * expected);
    }
    ops.sum_squares(std::span<double>(), std::span<const Tensor>());  // nothing to do
  });
}

TEST_CASE("sum of rows: in double, row by row") {
  on_every_machine([](Ops& ops) {
    for (const auto& [R, C] : {std::pair<Index, Index>{1, 1}, {5, 77}, {3, 4096}, {2, 5001}}) {
      Floats x = random_floats(R * C, 1);
      Doubles sums(static_cast<std::size_t>(R), -1.0);
      ops.sum_rows(Tensor(sums.data(), DType::F64, {R}), tensor(x, {R, C}));
      for (Index r = 0; r < R; ++r) {
        double expected = 0, size = 0;
        for (Index c = 0; c < C; ++c) {
          const double v = static_cast<double>(x[static_cast<std::size_t>(r * C + c)]);
          expected += v;
          size += std::abs(v);
        }
        CHECK(std::abs(sums[static_cast<std::size_t>(r)] - expected) <= 1e-14 * size);
      }
    }
  });
}

TEST_CASE("convert: to 16 bits by rounding to nearest even, back without loss") {
  const Floats x = hard_numbers();
  Bits every(1 << 16);
  for (std::size_t i = 0; i < every.size(); ++i) every[i] = static_cast<std::uint16_t>(i);
  on_every_machine([&](Ops& ops) {
    for (const DType type : {DType::BF16, DType::F16}) {
      Floats from = x, wide(every.size());
      Bits to(x.size());
      const Index n = std::ssize(x), all = std::ssize(every);
      ops.convert(Tensor(to.data(), type, {n}), tensor(from, {n}));
      for (std::size_t i = 0; i < x.size(); ++i) {
        INFO(x[i] << " as " << to_string(type));
        REQUIRE(to[i] == rounded(type, x[i]));
      }
      ops.convert(tensor(wide, {all}), Tensor(every.data(), type, {all}));
      for (std::size_t i = 0; i < every.size(); ++i) {
        const float expected = type == DType::BF16 ? from_bf16(every[i]) : from_f16(every[i]);
        if (std::isnan(expected))
          REQUIRE(std::isnan(wide[i]));
        else
          REQUIRE(std::bit_cast<std::uint32_t>(wide[i]) == std::bit_cast<std::uint32_t>(expected));
      }
    }
  });
}
