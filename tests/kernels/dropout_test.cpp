#include "references.h"

using namespace chimera;
using namespace chimera::test;

namespace {
constexpr std::uint64_t kSeed = 0x123456789abcdef0;  // both words of the key
}  // namespace

TEST_CASE("dropout: residual forward and backward use the mask of ops.h, at every alignment") {
  on_every_machine([](Ops& ops) {
    for (const auto& [B, T, C] :
         {std::array<Index, 3>{1, 1, 1}, {3, 7, 5}, {2, 31, 33}, {2, 9, 1024}})
      for (const float probability : {0.0f, 0.1f, 0.9f}) {
        const Dropout dropout{probability, kSeed, (Index{1} << 33) + 5, 7,
                              DropoutSite::MlpResidual};
        INFO(B << " x " << T << " x " << C << ", probability " << probability);
        Floats x = random_floats(B * T * C, 1), branch = random_floats(B * T * C, 2);
        Floats out(x.size()), d(x.size());
        Doubles expected, gradient;
        for (Index b = 0; b < B; ++b) {
          const Doubles keep = dropout_multipliers(dropout, b, T * C);
          for (Index e = 0; e < T * C; ++e) {
            const double v = static_cast<double>(branch[at(b * T * C + e)]) * keep[at(e)];
            expected.push_back(static_cast<double>(x[at(b * T * C + e)]) + v);
            gradient.push_back(v);
          }
        }
        ops.residual_forward(tensor(out, {B, T, C}), tensor(x, {B, T, C}),
                             tensor(branch, {B, T, C}), dropout);
        ops.residual_backward(tensor(d, {B, T, C}), tensor(branch, {B, T, C}), dropout);
        CHECK(distance(out, expected) <= kFp32);
        CHECK(distance(d, gradient) <= kFp32);
        Floats on_branch = branch, on_residual = x;
        ops.residual_forward(tensor(on_branch, {B, T, C}), tensor(x, {B, T, C}),
                             tensor(on_branch, {B, T, C}), dropout);
        ops.residual_forward(tensor(on_residual, {B, T, C}), tensor(on_residual, {B, T, C}),
                             tensor(branch, {B, T, C}), dropout);
        ops.residual_backward(tensor(branch, {B, T, C}), tensor(branch, {B, T, C}), dropout);
        CHECK(on_branch == out);
        CHECK(on_residual == out);
        CHECK(branch == d);
      }
  });
}

// 400,000 draws: the share kept has a standard deviation of 0.0007 at most; 5 of them.
TEST_CASE("dropout: the share kept, and other masks for other seeds, samples, layers and sites") {
  const auto ops = test_ops();
  const Index B = 4, T = 100, C = 1000;
  Floats ones(at(B * T * C), 1.0f), mask(ones.size());
  const auto draw = [&](Dropout d) {
    ops->residual_backward(tensor(mask, {B, T, C}), tensor(ones, {B, T, C}), d);
    return mask;
  };
  for (const float p : {0.1f, 0.5f}) {
    const Floats m = draw({p, 3, 0, 0, DropoutSite::MlpResidual});
    const double kept =
        static_cast<double>(std::count_if(m.begin(), m.end(), [](float v) { return v != 0; }));
    CHECK(std::abs(kept / static_cast<double>(m.size()) - (1 - static_cast<double>(p))) <= 0.0035);
  }
  const Floats m = draw({0.5f, 3, 0, 0, DropoutSite::MlpResidual});
  for (const Dropout other : {Dropout{0.5f, 4, 0, 0, DropoutSite::MlpResidual},
                              Dropout{0.5f, 3, 1, 0, DropoutSite::MlpResidual},
                              Dropout{0.5f, 3, 0, 1, DropoutSite::MlpResidual},
                              Dropout{0.5f, 3, 0, 0, DropoutSite::AttentionResidual}}) {
    const Floats o = draw(other);
    Index equal = 0;
    for (std::size_t i = 0; i < m.size(); ++i) equal += m[i] == o[i];
    // Independent masks agree in half of the places.
    CHECK(std::abs(static_cast<double>(equal) / static_cast<double>(m.size()) - 0.5) <= 0.004);
  }
}

TEST_CASE("dropout: samples 5 to 8 of a batch draw what each draws alone") {
  on_every_machine([](Ops& ops) {
    const Index B = 4, T = 21, H = 2, head = 6, C = H * head;
    const Dropout all{0.4f, kSeed, 5, 1, DropoutSite::Attention};
    Floats qkv = random_floats(B * T * 3 * C, 1), branch = random_floats(B * T * C, 2);
    Floats out(branch.size()), lse(at(B * H * T)), sum(branch.size());
    ops.attention_forward(tensor(out, {B, T, C}), tensor(lse, {B, H, T}), tensor(qkv, {B, T, 3, C}),
                          H, all);
    ops.residual_forward(tensor(sum, {B, T, C}), tensor(out, {B, T, C}), tensor(branch, {B, T, C}),
                         all);
    Floats out_alone(branch.size()), sum_alone(branch.size());
    for (Index b = 0; b < B; ++b) {
      Dropout one = all;
      one.first_sample = 5 + b;
      const Tensor row = tensor(out_alone, {B, T, C}).rows(b, 1);
      ops.attention_forward(row, tensor(lse, {B, H, T}).rows(b, 1),
                            tensor(qkv, {B, T, 3, C}).rows(b, 1), H, one);
      ops.residual_forward(tensor(sum_alone, {B, T, C}).rows(b, 1), row,
                           tensor(branch, {B, T, C}).rows(b, 1), one);
    }
    CHECK(out == out_alone);
    CHECK(sum == sum_alone);
  });
}

TEST_CASE("dropout: a bad value is not dropped in silence") {
  on_every_machine([](Ops& ops) {
    Floats x(64, NAN), y(64);
    ops.residual_backward(tensor(y, {1, 8, 8}), tensor(x, {1, 8, 8}),
                          {0.9f, 1, 0, 0, DropoutSite::MlpResidual});
    for (const float v : y) CHECK(std::isnan(v));
  });
}
