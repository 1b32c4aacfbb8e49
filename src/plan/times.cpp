#include "chimera/plan/times.h"

namespace chimera::plan {

PieceTimes estimated_times(const Cluster& cluster, const model::ModelConfig& m, Index B, Index T,
                           DType type) {
  const double C = static_cast<double>(m.n_embd), V = static_cast<double>(m.vocab_size),
               R = static_cast<double>(checked_mul(B, T));
  const bool narrow = type != DType::F32;
  const double rate = narrow && cluster.peak_flops_16bit > 0
                          ? cluster.peak_flops_16bit * cluster.achieved_fraction_16bit
                          : cluster.peak_flops * cluster.achieved_fraction;
  const double width = static_cast<double>(size_of(type));
  const auto moved = [&](double numbers) { return width * numbers / cluster.memory_bandwidth; };
  const std::vector<model::StageWork> work = model::stage_work(m, {1, 1}, B, T);
  const model::StageWork& block = work.front();
  PieceTimes times;
  times.block_forward = block.forward / rate;
  times.block_input = block.input / rate;
  times.block_weight = block.weight / rate;
  // Two norms and GELU again: reads and writes of (R, C) and (R, 4C).
  times.block_selective = moved((2 * 2 + 2 * 4) * R * C);
  times.block_refill = (block.forward - 8 * C * C * R) / rate;  // all but the last product
  times.embedding_forward = moved(3 * R * C);
  times.embedding_backward = moved(6 * R * C);
  times.head = (work.back().forward - block.forward) / rate + moved(3 * R * V);
  // Reads weight (or master), gradient and two moments and writes three of them, in fp32; then the
  // 16-bit weight.
  times.optimizer = (4 * 7 + (narrow ? width : 0)) / cluster.memory_bandwidth;
  return times;
}

std::vector<StageSeconds> stage_seconds(const PieceTimes& t, const std::vector<Index>& layers,
                                        nn::Recompute recompute) {
  std::vector<StageSeconds> out;
  for (const Index layer_count : layers) {
    const double n = static_cast<double>(layer_count);
    StageSeconds stage;
    stage.forward = n * t.block_forward;
    stage.input = n * t.block_input;
    stage.weight = n * t.block_weight;
    if (recompute == nn::Recompute::Selective) stage.input += n * t.block_selective;
    // The stage's input is kept, its output is not needed again.
    if (recompute == nn::Recompute::Full)
      stage.recompute = (n - 1) * t.block_forward + t.block_refill;
    out.push_back(stage);
  }
  out.front().forward += t.embedding_forward;
  out.front().weight += t.embedding_backward;
  out.back().forward += t.head;
  return out;
}

schedule::StageTimes search_times(const PieceTimes& times, const model::ModelConfig& model,
                                  const std::vector<Index>& layers, nn::Recompute recompute,
                                  Index depth) {
  schedule::StageTimes out;
  for (const StageSeconds& s : stage_seconds(times, layers, recompute)) {
    out.forward.push_back(s.forward);
    out.input.push_back(s.input + s.recompute);
    out.weight.push_back(s.weight);
  }
  out.update = times.optimizer * static_cast<double>(model::parameter_count(model) / depth);
  return out;
}

model::StageCosts stage_costs(const PieceTimes& t) {
  return {.embedding = t.embedding_forward + t.embedding_backward,
          .block = t.block_forward + t.block_input + t.block_weight,
          .head = t.head};
}

}  // namespace chimera::plan
