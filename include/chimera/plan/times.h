#pragma once
// Seconds of the pieces of a model, from which the seconds of any stage follow.
#include <vector>

#include "chimera/model/config.h"
#include "chimera/plan/cluster.h"

namespace chimera::plan {

// Of one micro-batch of B samples of T tokens on one worker.
struct PieceTimes {
  double block_forward = 0, block_input = 0, block_weight = 0;  // one block
  double block_selective = 0;  // what selective recomputation does again per block
  double embedding_forward = 0, embedding_backward = 0;
  double head = 0;  // logits, loss and both gradients: all of it runs in the last stage's forward
  double optimizer = 0;  // per parameter and update
};

// Floating-point operations of one micro-batch: block forward 24 C^2 R + 4 T C R (R = B T;
// attention in full), input gradient the same matrix products and twice the attention, weight
// gradient 24 C^2 R, head 6 V C R. Embeddings and the optimizer are bound by memory: bytes /
// bandwidth.
PieceTimes estimated_times(const Cluster& cluster, const model::ModelConfig& model, Index B,
                           Index T);

// Of every stage of vD; `micro`: seconds of one micro-batch.
struct StageSeconds {
  double forward = 0, input = 0, weight = 0;
  double recompute = 0;  // what runs again before a backward
  double update = 0;     // of all its parameters by one worker
};
std::vector<StageSeconds> stage_seconds(const PieceTimes& times, const model::ModelConfig& model,
                                        const std::vector<Index>& layers,
                                        const std::string& recompute);

// Layers of each of `stages` stages with the smallest heaviest stage, embedding and head weighed by
// their times; every stage has at least one layer.
std::vector<Index> balanced_layers(const PieceTimes& times, Index n_layer, Index stages);

}  // namespace chimera::plan
