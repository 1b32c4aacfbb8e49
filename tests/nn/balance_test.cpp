// Which layers a stage takes, and what a stage costs.
#include "chimera/model/balance.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "chimera/base/rng.h"
#include "support/support.h"

using namespace chimera;
using namespace chimera::model;

namespace {

struct Split {
  double slowest = 0, squares = 0;
  std::vector<Index> layers;
};

Split measure(const std::vector<Index>& layers, const StageCosts& c) {
  Split out{.layers = layers};
  for (std::size_t s = 0; s < layers.size(); ++s) {
    const double t = static_cast<double>(layers[s]) * c.block + (s == 0 ? c.embedding : 0) +
                     (s + 1 == layers.size() ? c.head : 0);
    out.slowest = std::max(out.slowest, t);
    out.squares += t * t;
  }
  return out;
}

// Of all compositions: the least (slowest, sum of squares).
Split brute_force(Index n_layer, Index stages, const StageCosts& c) {
  Split best{.slowest = 1e300};
  std::vector<Index> layers;
  const std::function<void(Index)> extend = [&](Index rest) {
    const auto missing = stages - static_cast<Index>(layers.size());
    if (missing == 0) {
      if (rest > 0) return;
      const Split s = measure(layers, c);
      if (s.slowest < best.slowest || (s.slowest == best.slowest && s.squares < best.squares))
        best = s;
      return;
    }
    for (Index count = 1; count <= rest - missing + 1; ++count) {
      layers.push_back(count);
      extend(rest - count);
      layers.pop_back();
    }
  };
  extend(n_layer);
  return best;
}

ModelConfig model_of(const std::string& preset) {
  const Preset& p = *find_preset(preset);
  ModelConfig m;
  m.n_layer = p.n_layer, m.n_head = p.n_head, m.n_embd = p.n_embd, m.n_positions = p.n_positions;
  m.vocab_size = p.vocab_size, m.tied_embeddings = p.tied_embeddings;
  return m;
}

}  // namespace

TEST_CASE("balanced stages equal the best of all compositions") {
  int trial = 0;
  for (Index n_layer = 1; n_layer <= 10; ++n_layer)
    for (Index stages = 1; stages <= n_layer; ++stages)
      for (int repeat = 0; repeat < 5; ++repeat, ++trial) {
        float random[3];
        fill_normal(random, 3, 0, 0, 1, 77, static_cast<std::uint64_t>(trial));
        const StageCosts costs{.embedding = std::abs(static_cast<double>(random[0])),
                               .block = 0.05 + std::abs(static_cast<double>(random[1])),
                               .head = 2 * std::abs(static_cast<double>(random[2]))};
        ModelConfig m;
        m.n_layer = n_layer;
        const std::vector<Index> layers = balanced_stage_layers(m, stages, costs);
        INFO(n_layer << " layers, " << stages << " stages, trial " << trial);
        REQUIRE(layers.size() == static_cast<std::size_t>(stages));
        CHECK(std::accumulate(layers.begin(), layers.end(), Index{0}) == n_layer);
        CHECK(*std::min_element(layers.begin(), layers.end()) >= 1);
        const Split got = measure(layers, costs), best = brute_force(n_layer, stages, costs);
        CHECK(got.slowest == best.slowest);
        CHECK(got.squares == Approx(best.squares).epsilon(1e-12));
      }
}

TEST_CASE("balanced stages: even without costs at the ends, light at an expensive end") {
  ModelConfig m;
  m.n_layer = 8;
  CHECK(balanced_stage_layers(m, 4, {0, 1, 0}) == std::vector<Index>{2, 2, 2, 2});
  m.n_layer = 10;
  // Two stages must take 3: those without an embedding or a head.
  CHECK(balanced_stage_layers(m, 4, {0.1, 1, 0.2}) == std::vector<Index>{2, 3, 3, 2});
  CHECK(balanced_stage_layers(m, 4, {0, 1, 2}) == std::vector<Index>{3, 3, 3, 1});
  // A head of more than everything: it keeps one layer, the rest is even.
  CHECK(balanced_stage_layers(m, 4, {0, 1, 100}) == std::vector<Index>{3, 3, 3, 1});
  CHECK_THROWS_AS(balanced_stage_layers(m, 11, {}), Error);
  CHECK_THROWS_AS(balanced_stage_layers(m, 0, {}), Error);
  CHECK_THROWS_AS(balanced_stage_layers(m, 2, {0, 0, 1}), Error);
  CHECK_THROWS_AS(balanced_stage_layers(m, 2, {-1, 1, 1}), Error);
  CHECK_THROWS_AS(balanced_stage_layers(m, 2, {0, 1, 0.0 / 0.0}), Error);
  CHECK_THROWS_AS(balanced_stage_layers(m, 2, {0, 1e308, 1e308}), Error);
}

// 12 C^2 = 7.1 million weights of a layer against V C = 38.6 million of the head are 5.5 layers,
// less what attention adds to a layer.
TEST_CASE(
    "estimated costs: the head of gpt2-124m is worth four to six layers, the embedding none") {
  const ModelConfig m = model_of("gpt2-124m");
  const StageCosts c = estimated_costs(m, 1024);
  CHECK(c.head / c.block > 4);
  CHECK(c.head / c.block < 6);
  CHECK(c.embedding / c.block < 0.01);
  CHECK(balanced_stage_layers(m, 2, c) == std::vector<Index>{8, 4});
}

TEST_CASE("the work of all stages is the model's FLOPs, wherever its layers are") {
  for (const char* name : {"gpt2-124m", "gpt2-1.3b"}) {
    const ModelConfig m = model_of(name);
    const Index samples = 2, T = 512;
    for (const std::vector<Index>& layers :
         {std::vector<Index>{m.n_layer}, std::vector<Index>{m.n_layer - 3, 1, 2}}) {
      const std::vector<StageWork> work = stage_work(m, layers, samples, T);
      REQUIRE(work.size() == layers.size());
      double sum = 0;
      for (const StageWork& w : work) sum += w.forward + w.input + w.weight;
      // flops_per_token counts attention's backward as twice its forward (6 products); the scores
      // are made again (7), and norms and biases are no products.
      const double C = static_cast<double>(m.n_embd), L = static_cast<double>(m.n_layer);
      const double tokens = static_cast<double>(samples * T);
      const double expected =
          flops_per_token(m, T, true) - 6 * (13 * C * L + 2 * C) + L * C * static_cast<double>(T);
      CHECK(sum == Approx(expected * tokens).epsilon(1e-12));
    }
    const std::vector<StageWork> work = stage_work(m, {1, m.n_layer - 1}, 1, T);
    CHECK(work[0].weight < work[0].forward);
    CHECK(work[0].forward < work[0].input);
    CHECK(work[1].weight == Approx(work[0].weight * static_cast<double>(m.n_layer - 1)));
  }
}
