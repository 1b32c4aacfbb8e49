#pragma once
// Seconds of the pieces of a model, from which the seconds of any stage follow.
#include <vector>

#include "chimera/model/balance.h"
#include "chimera/nn/block.h"
#include "chimera/plan/cluster.h"
#include "chimera/schedule/generate.h"

namespace chimera::plan {

// Of one micro-batch of B samples of T tokens on one worker.
struct PieceTimes {
  double block_forward = 0, block_input = 0, block_weight = 0;  // one block
  double block_selective = 0;  // what selective recomputation does again per block
  double block_refill = 0;     // a block's forward without its output: the last of a recomputation
  double embedding_forward = 0, embedding_backward = 0;
  double head = 0;  // logits, loss and both gradients: all of it runs in the last stage's forward
  double optimizer = 0;  // per parameter and update
};

// From operation counts (model::stage_work: causal attention, head in the forward) at the achieved
// rate; embeddings, the optimizer and the rest that memory bounds from bytes moved. With a 16-bit
// `type` at the cluster's rate of 16-bit products, or at that of fp32 where it is not known.
PieceTimes estimated_times(const Cluster& cluster, const model::ModelConfig& model, Index B,
                           Index T, DType type = DType::F32);

// Of one micro-batch, per stage.
struct StageSeconds {
  double forward = 0, input = 0, weight = 0;
  double recompute = 0;  // what runs again before a backward, under full recomputation
  double backward() const { return input + weight; }
};
std::vector<StageSeconds> stage_seconds(const PieceTimes& times, const std::vector<Index>& layers,
                                        nn::Recompute recompute);

// What searched schedules are made for: a recomputation belongs to the input half, `update` is that
// of a worker's share of the model.
schedule::StageTimes search_times(const PieceTimes& times, const model::ModelConfig& model,
                                  const std::vector<Index>& layers, nn::Recompute recompute,
                                  Index depth);

// For model::balanced_stage_layers.
model::StageCosts stage_costs(const PieceTimes& times);

}  // namespace chimera::plan
