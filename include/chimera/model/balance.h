#pragma once
// What the parts of a model cost, and which layers a stage takes so that no stage holds up the
// others.
#include <vector>

#include "chimera/model/config.h"

namespace chimera::model {

// Time of forward and backward of one micro-batch, in any unit. The embedding runs on the first
// stage, the head (final norm, logits, loss and both their gradients) on the last.
struct StageCosts {
  double embedding = 0, block = 1, head = 0;
};

// From operation counts, per token, in FLOPs. Work that memory traffic bounds (embedding, norms,
// gelu, residuals, cross entropy) counts as the FLOPs that the machine could have done meanwhile:
// `flops_per_byte` is the ratio of its matmul rate to its memory rate: about 10 in fp32 on the CPUs
// and GPUs at hand (P100: 9.3 TFLOP/s and 732 GB/s).
StageCosts estimated_costs(const ModelConfig& config, Index T, double flops_per_byte = 10);

// Contiguous layers of each of `stages` stages, at least one each, such that the slowest stage is
// as fast as it can be; among those the most even (least sum of squared times). Throws when stages
// > layers. The same for interleaved stages, whose number is v * D.
std::vector<Index> balanced_stage_layers(const ModelConfig& config, Index stages,
                                         const StageCosts& costs);

// FLOPs of one micro-batch on a stage by instruction, where no times have been measured.
struct StageWork {
  double forward = 0, input = 0, weight = 0;
};
// Per stage, for `samples` samples of T tokens. Multiplications of matrices and causal attention
// (half of its square) alone. Attention's backward counts as input gradient; the last stage's head
// (logits and both gradients) as forward, where it runs.
std::vector<StageWork> stage_work(const ModelConfig& config, const std::vector<Index>& layers,
                                  Index samples, Index T);

}  // namespace chimera::model
