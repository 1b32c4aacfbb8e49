#include "chimera/model/balance.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace chimera::model {
namespace {

constexpr double kForbidden = std::numeric_limits<double>::infinity();

// The time of every stage by its number of layers.
class StageTime {
 public:
  StageTime(Index stages, const StageCosts& costs) : stages_(stages), costs_(costs) {}
  double operator()(Index stage, Index layers) const {
    return static_cast<double>(layers) * costs_.block + (stage == 0 ? costs_.embedding : 0) +
           (stage + 1 == stages_ ? costs_.head : 0);
  }

 private:
  Index stages_;
  StageCosts costs_;
};

// Splits n_layer layers into one or more per stage with the least total, where `add` joins the
// total of the stages before (0 for none) with a stage's term. Exact for every `add` that does not
// fall when its first argument rises. `layers` receives the split.
template <class Add>
double best_split(Index n_layer, Index stages, const Add& add, std::vector<Index>& layers) {
  const auto width = static_cast<std::size_t>(n_layer) + 1;
  std::vector<double> best(width, kForbidden);  // [layers used by the stages so far]
  best[0] = 0;
  std::vector<std::vector<Index>> taken;  // [stage][layers used] = layers of that stage
  for (Index stage = 0; stage < stages; ++stage) {
    std::vector<double> next(width, kForbidden);
    std::vector<Index>& choice = taken.emplace_back(width, 0);
    for (Index used = stage + 1; used <= n_layer; ++used)
      for (Index count = 1; count <= std::min(used - stage, n_layer - stages + 1); ++count) {
        const double before = best[static_cast<std::size_t>(used - count)];
        const double total = add(before, stage, count);
        if (before == kForbidden || !(total < next[static_cast<std::size_t>(used)])) continue;
        next[static_cast<std::size_t>(used)] = total;
        choice[static_cast<std::size_t>(used)] = count;
      }
    best = std::move(next);
  }
  layers.assign(static_cast<std::size_t>(stages), 0);
  for (Index stage = stages, used = n_layer; stage-- > 0;) {
    const Index count = taken[static_cast<std::size_t>(stage)][static_cast<std::size_t>(used)];
    layers[static_cast<std::size_t>(stage)] = count;
    used -= count;
  }
  return best.back();
}

double linear_flops(const ModelConfig& m, double rows) {
  const double C = static_cast<double>(m.n_embd);
  return 2 * 12 * C * C * rows;
}

// One product of the causal half of the scores with (T, C), all heads.
double attention_product_flops(const ModelConfig& m, double rows, Index T) {
  return static_cast<double>(T) * static_cast<double>(m.n_embd) * rows;
}

double head_product_flops(const ModelConfig& m, double rows) {
  return 2 * static_cast<double>(m.n_embd) * static_cast<double>(m.vocab_size) * rows;
}

}  // namespace

StageCosts estimated_costs(const ModelConfig& m, Index T, double flops_per_byte) {
  // Floats read and written per token by what is not a product, forward + backward, as the
  // contracts in ops.h have it. Block, in C: norms 2 * (2 + 2 + 4), residuals 2 * (3 + 2), gelu
  // 4 * (2 + 3), biases 9. Embedding, in C: two rows in, one out; then the gradient in and out
  // (dropout), both tables in and out. Head: norm (2 + 2 + 3) C, cross entropy 3 V.
  const double C = static_cast<double>(m.n_embd), V = static_cast<double>(m.vocab_size);
  const double per_float = flops_per_byte * 4;
  const double products = 3 * linear_flops(m, 1) + 7 * attention_product_flops(m, 1, T);
  return {.embedding = per_float * 9 * C,
          .block = products + per_float * 55 * C,
          .head = 3 * head_product_flops(m, 1) + per_float * (7 * C + 3 * V)};
}

std::vector<Index> balanced_stage_layers(const ModelConfig& config, Index stages,
                                         const StageCosts& costs) {
  const Index n_layer = config.n_layer;
  ENSURE(stages >= 1 && stages <= n_layer, "the model has ", n_layer, " layers, fewer than the ",
         stages, " stages; use at most ", n_layer, " stages");
  ENSURE(costs.block > 0 && costs.embedding >= 0 && costs.head >= 0, "costs of embedding ",
         costs.embedding, ", block ", costs.block, ", head ", costs.head,
         ": a block must cost something, and nothing less than 0");
  const StageTime time(stages, costs);
  std::vector<Index> layers;
  const double slowest = best_split(
      n_layer, stages,
      [&](double before, Index stage, Index count) { return std::max(before, time(stage, count)); },
      layers);
  ENSURE(std::isfinite(slowest), "the slowest stage takes ", slowest, " with costs of embedding ",
         costs.embedding, ", block ", costs.block, ", head ", costs.head);
  best_split(
      n_layer, stages,
      [&](double before, Index stage, Index count) {
        const double t = time(stage, count);
        return t <= slowest ? before + t / slowest * (t / slowest) : kForbidden;
      },
      layers);
  return layers;
}

std::vector<StageWork> stage_work(const ModelConfig& m, const std::vector<Index>& layers,
                                  Index samples, Index T) {
  const double rows = static_cast<double>(checked_mul(samples, T));
  const double linear = linear_flops(m, rows), product = attention_product_flops(m, rows, T);
  std::vector<StageWork> work;
  for (const Index count : layers) {
    const double n = static_cast<double>(count);
    // Attention: scores and values forward; backward scores again, and a gradient each of
    // probabilities, values, queries and keys.
    work.push_back({.forward = n * (linear + 2 * product),
                    .input = n * (linear + 5 * product),
                    .weight = n * linear});
  }
  if (!work.empty()) work.back().forward += 3 * head_product_flops(m, rows);
  return work;
}

}  // namespace chimera::model
