#include "chimera/nn/head.h"

#include <algorithm>

namespace chimera::nn {

Head::Head(ParameterLayout& params, const HeadConfig& config, std::optional<TokenMatrix> shared)
    : config_(config),
      ln_f_(params, "transformer.ln_f", config.C, config.order, config.depth, config.epsilon),
      matrix_(shared ? *shared
                     : TokenMatrix{params.add("lm_head.weight", {config.V, config.C},
                                              {.order = config.order + LayerNorm::kParameters,
                                               .depth = config.depth,
                                               .init = Init::Normal,
                                               .deviation = config.deviation})}) {}

Head::Scratch Head::declare_scratch(Layout& workspace, Index rows, DType type) const {
  const Index C = config_.C, V = config_.V;
  const Index chunk = std::clamp<Index>(kHeadChunkBytes / (V * size_of(type)), 1, rows);
  return {.norm = LayerNorm::declare(workspace, "ln_f", rows),
          .rows = workspace.add("head.rows", type, {rows, C}),
          .drows = workspace.add("head.drows", type, {rows, C}),
          .logits = workspace.add("head.logits", type, {chunk, V})};
}

void Head::forward(Pass& pass, const Scratch& scratch, Tensor losses, Tensor dy, Tensor y,
                   Tensor targets, float label_smoothing) const {
  const BufferView work = pass.scratch();
  const bool train = pass.mode == Mode::Train;
  const Index R = y.dim(0), chunk = scratch.logits.shape[0];
  const Tensor rows = work.rows(scratch.rows), drows = work.rows(scratch.drows);
  const Tensor mean = work.rows(scratch.norm.mean), rstd = work.rows(scratch.norm.rstd);
  const Tensor weight = matrix_.weights(pass);
  ln_f_.forward(pass, rows, y, mean, rstd);
  for (Index begin = 0; begin < R; begin += chunk) {
    const Index count = std::min(chunk, R - begin);
    const Tensor logits = pass.workspace.at(scratch.logits).rows(0, count);
    pass.ops.matmul(logits, rows.rows(begin, count), Transpose::No, weight, Transpose::Yes,
                    Write::Set);
    pass.ops.cross_entropy(losses.rows(begin, count), logits, targets.rows(begin, count),
                           label_smoothing, pass.loss_scale,
                           train ? Gradient::InPlace : Gradient::None);
    if (!train) continue;
    const Flat& gradients = matrix_.tied ? pass.tied_head_gradients : pass.gradients;
    pass.ops.matmul(drows.rows(begin, count), logits, Transpose::No, weight, Transpose::No,
                    Write::Set);
    pass.ops.matmul(gradients.at(matrix_.region), logits, Transpose::Yes, rows.rows(begin, count),
                    Transpose::No, Write::Add);
  }
  if (train) ln_f_.backward(pass, dy, drows, y, mean, rstd, Write::Set);
}

void Head::decode(Pass& pass, Tensor logits, Tensor norm, Tensor mean, Tensor rstd,
                  Tensor y) const {
  ln_f_.forward(pass, norm, y, mean, rstd);
  pass.ops.matmul(logits, norm, Transpose::No, matrix_.weights(pass), Transpose::Yes, Write::Set);
}

}  // namespace chimera::nn
