#include "references.h"

using namespace chimera;
using namespace chimera::test;

namespace {

struct Attention {
  AttentionSizes s;
  Dropout dropout;
  Floats qkv, dout, out, lse, dqkv, delta;

  Attention(AttentionSizes sizes, Dropout d)
      : s(sizes),
        dropout(d),
        qkv(random_floats(s.B * s.T * 3 * s.C(), 1)),
        dout(random_floats(s.B * s.T * s.C(), 2)),
        out(dout.size(), NAN),  // what an op overwrites may hold anything
        lse(at(s.B * s.H * s.T), NAN),
        dqkv(qkv.size(), NAN),
        delta(lse.size(), NAN) {}

  void run(Ops& ops) {
    const Index B = s.B, T = s.T, C = s.C();
    ops.attention_forward(tensor(out, {B, T, C}), tensor(lse, {B, s.H, T}),
                          tensor(qkv, {B, T, 3, C}), s.H, dropout);
    ops.attention_backward(tensor(dqkv, {B, T, 3, C}), tensor(delta, {B, s.H, T}),
                           tensor(dout, {B, T, C}), tensor(out, {B, T, C}),
                           tensor(lse, {B, s.H, T}), tensor(qkv, {B, T, 3, C}), s.H, dropout);
  }
};

}  // namespace

// Tails everywhere: tokens around the panel (8, 16, 32 queries) and the tiles (64, 128 keys), heads
// below, at and beyond whole vectors; T of every remainder by 4 for the two ways masks are laid
// out.
TEST_CASE("attention: forward and gradients match float64 at odd sizes, with dropout too") {
  const std::vector<AttentionSizes> sizes{{2, 3, 1, 1},    {1, 2, 2, 3},    {2, 1, 7, 5},
                                          {1, 3, 31, 16},  {1, 1, 33, 17},  {2, 2, 64, 32},
                                          {1, 2, 97, 48},  {1, 1, 130, 64}, {1, 1, 66, 80},
                                          {1, 2, 40, 128}, {1, 1, 19, 256}, {1, 1, 300, 12}};
  for (const AttentionSizes& s : sizes)
    for (const float probability : {0.0f, 0.3f}) {
      INFO(s.B << " x " << s.H << " x " << s.T << " x " << s.head << ", dropout " << probability);
      Attention run(s, {probability, 99, 5, 3, DropoutSite::Attention});
      const auto forward = attention_reference(widen(run.qkv), s, run.dropout);
      const auto gradient = attention_gradient(widen(run.dout), widen(run.qkv), s, run.dropout);
      on_every_machine([&](Ops& ops) {
        run.run(ops);
        CHECK(distance(run.out, forward.out) <= kFp32);
        CHECK(distance(run.lse, forward.lse) <= kFp32);
        CHECK(distance(run.dqkv, gradient) <= kFp32);
      });
    }
}

TEST_CASE("attention: scores of 1,000 do not overflow") {
  Attention run({1, 1, 70, 8}, {});
  for (float& x : run.qkv) x *= 50;
  const auto forward = attention_reference(widen(run.qkv), run.s, {});
  on_every_machine([&](Ops& ops) {
    run.run(ops);
    // A score of 1,000 is known to 6e-5, and so is every probability.
    CHECK(distance(run.out, forward.out) <= 1e-3);
    for (const float x : run.dqkv) REQUIRE(std::isfinite(x));
  });
}

// (A NaN value may also reach earlier queries of its tile, as 0 * NaN: it ends the job anyway.)
TEST_CASE("attention: a later token changes no bit, and a bad one reaches all who see it") {
  const AttentionSizes s{1, 2, 75, 24};
  const Index C = s.C(), token = 41;
  on_every_machine([&](Ops& ops) {
    for (const Index part : {0, 1, 2})
      for (const float value : {1e4f, NAN}) {
        Attention clean(s, {}), hurt(s, {});
        const std::size_t where = at((token * 3 + part) * C + 3);  // of head 0
        hurt.qkv[where] = value;
        clean.run(ops);
        hurt.run(ops);
        for (Index t = 0; t < s.T; ++t) {
          const auto row = [&](const Floats& x) {
            return Floats(x.begin() + t * C, x.begin() + (t + 1) * C);
          };
          const bool sees = part == 0 ? t == token : t >= token;
          if (!sees && std::isfinite(value)) REQUIRE(row(hurt.out) == row(clean.out));
          if (sees && !std::isfinite(value)) REQUIRE(std::isnan(row(hurt.out)[3]));
        }
        const Index dq = token * 3 * C + 3;  // dv does not depend on v; dq depends on all three
        if (!std::isfinite(value)) CHECK(std::isnan(hurt.dqkv[at(dq)]));
      }
  });
}

TEST_CASE("attention cached: token by token or in blocks, the rows of the whole sequence") {
  on_every_machine([](Ops& ops) {
    for (const AttentionSizes s : {AttentionSizes{1, 2, 45, 16}, AttentionSizes{1, 3, 140, 20}}) {
      Attention whole(s, {});
      whole.run(ops);
      const Index C = s.C(), P = s.T + 3;
      for (const Index step : {Index{1}, Index{7}, s.T}) {
        Floats keys(at(P * C), NAN), values(at(P * C), NAN), out(whole.out.size());
        for (Index first = 0; first < s.T; first += step) {
          const Index R = std::min(step, s.T - first);
          ops.attention_cached(tensor(out, {s.T, C}).rows(first, R), tensor(keys, {P, C}),
                               tensor(values, {P, C}),
                               tensor(whole.qkv, {s.T, 3, C}).rows(first, R), first, s.H);
        }
        CHECK(distance(out, widen(whole.out)) <= kFp32);
      }
    }
  });
}
