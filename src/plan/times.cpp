#include "chimera/plan/times.h"

#include <algorithm>

#include "chimera/model/parameters.h"

namespace chimera::plan {

PieceTimes estimated_times(const Cluster& cluster, const model::ModelConfig& m, Index B, Index T) {
  const double C = static_cast<double>(m.n_embd), V = static_cast<double>(m.vocab_size),
               R = static_cast<double>(B) * static_cast<double>(T), t = static_cast<double>(T);
  const double rate = cluster.peak_flops * cluster.achieved_fraction;
  const double products = 24 * C * C * R / rate, attention = 4 * t * C * R / rate;
  const auto moved = [&](double floats) { return 4 * floats / cluster.memory_bandwidth; };
  PieceTimes times;
  times.block_forward = products + attention;
  times.block_input = products + 2 * attention;
  times.block_weight = products;
  // Norms and GELU again: reads and writes of (R, C) twice two norms, (R, 4C) GELU.
  times.block_selective = moved((2 * 2 + 2 * 4) * R * C);
  times.embedding_forward = moved(3 * R * C);
  times.embedding_backward = moved(5 * R * C);
  times.head = 6 * V * C * R / rate + moved(4 * R * V);
  times.optimizer = moved(7);  // reads weight, gradient and two moments; writes three of them
  return times;
}

std::vector<StageSeconds> stage_seconds(const PieceTimes& t, const model::ModelConfig& m,
                                        const std::vector<Index>& layers,
                                        const std::string& recompute) {
  const double C = static_cast<double>(m.n_embd), V = static_cast<double>(m.vocab_size),
               P = static_cast<double>(m.n_positions);
  std::vector<StageSeconds> out(layers.size());
  for (std::size_t s = 0; s < layers.size(); ++s) {
    const double n = static_cast<double>(layers[s]);
    double parameters = n * (12 * C * C + 13 * C);
    StageSeconds& stage = out[s];
    stage.forward = n * t.block_forward;
    stage.input = n * t.block_input;
    stage.weight = n * t.block_weight;
    if (recompute == "full") stage.recompute = n * t.block_forward;
    if (recompute == "selective") stage.input += n * t.block_selective;
    if (s == 0) {
      stage.forward += t.embedding_forward;
      stage.weight += t.embedding_backward;
      parameters += P * C + V * C;
      if (recompute == "full") stage.recompute += t.embedding_forward;
    }
    if (s + 1 == layers.size()) {
      stage.forward += t.head;
      parameters += V * C + 2 * C;
    }
    stage.update = parameters * t.optimizer;
  }
  return out;
}

std::vector<Index> balanced_layers(const PieceTimes& t, Index n_layer, Index stages) {
  ENSURE(stages >= 1 && stages <= n_layer, "the model has ", n_layer, " layers, fewer than the ",
         stages, " stages; use a depth of at most ", n_layer);
  const double block = t.block_forward + t.block_input + t.block_weight;
  std::vector<Index> layers(static_cast<std::size_t>(stages), 1);
  std::vector<double> seconds(layers.size(), block);
  seconds.front() += t.embedding_forward + t.embedding_backward;
  seconds.back() += t.head;
  // The next layer always goes where the sum stays smallest, ties to the middle: no other choice
  // has a smaller heaviest stage.
  const auto off_middle = [&](std::size_t s) {
    return std::abs(2 * static_cast<Index>(s) + 1 - stages);
  };
  for (Index rest = n_layer - stages; rest > 0; --rest) {
    std::size_t best = 0;
    for (std::size_t s = 1; s < layers.size(); ++s) {
      const double gap = seconds[s] - seconds[best], same = 1e-9 * block;
      if (gap < -same || (gap < same && off_middle(s) < off_middle(best))) best = s;
    }
    ++layers[best];
    seconds[best] += block;
  }
  return layers;
}

}  // namespace chimera::plan
