#pragma once
// One pipeline stage of a GPT-2: a run of blocks, with the embeddings before the first stage's and
// the final norm, head and loss after the last one's. It owns no memory: it declares layouts, and
// works on Flats of those layouts.
//
// A micro-batch has two pieces of memory on a stage:
//   - its boundary buffer, from its first message or load to its last one: all that travels;
//   - its activation buffer, from Forward (under full recomputation: from Recompute) to the end of
//   its backward.
// The head works row chunk by row chunk inside Forward: logits of a chunk, loss, their gradient in
// place, and from it at once the gradients of the head and of the stage's output. So no more than
// one chunk of logits exists at any time and nothing is computed twice; Backward of the last stage
// then begins at its last block.
#include <optional>

#include "chimera/model/config.h"
#include "chimera/nn/block.h"

namespace chimera::model {

using nn::ParameterLayout;
using nn::Pass;
using nn::Recompute;

// The tied embedding matrix, a pseudo-stage of its own: "transformer.wte.weight" (V, C).
ParameterLayout tied_parameters(const ModelConfig& config);
inline constexpr Index kHeadChunkBytes = Index{48} << 20;  // most memory of one chunk of logits

class Stage {
 public:
  // Stage `stage` of layers.size() stages; layers[s] blocks in stage s. Buffers hold
  // `samples` samples of T tokens. `split_backward`: BackwardInput and BackwardWeight are separate
  // instructions. `type`: of activations, of what travels and of the weights that a pass brings;
  // statistics, losses and gradients of weights are F32.
  Stage(const ModelConfig& config, const std::vector<Index>& layers, int stage, Index samples,
        Index T, bool split_backward = false, Recompute recompute = Recompute::None,
        DType type = DType::F32);

  const ParameterLayout& parameters() const { return params_; }
  const Layout& boundary_layout() const { return boundary_; }
  const Layout& activation_layout() const { return activations_; }
  const Layout& workspace_layout() const { return workspace_; }
  bool first() const { return first_; }
  bool last() const { return last_; }

  // Rows of a boundary buffer that travel, (samples * T, C): in to Forward, out of Forward, and the
  // gradient of the output, which Backward turns into the gradient of the input in place. Output
  // and gradient are ONE memory: no backward reads the output, so the gradient may arrive as soon
  // as the output has left (and the last stage's head replaces the one by the other).
  Tensor input(const nn::BufferView& boundary) const { return boundary.rows(input_); }
  Tensor output(const nn::BufferView& boundary) const { return boundary.rows(output_); }
  Tensor gradient(const nn::BufferView& boundary) const { return boundary.rows(output_); }
  // Filled by LoadMicro, I32 (samples * T): tokens are read by the first stage, targets by the
  // last.
  Tensor tokens(const nn::BufferView& boundary) const { return boundary.rows(tokens_); }
  Tensor targets(const nn::BufferView& boundary) const { return boundary.rows(targets_); }
  // Written by the last stage's Forward: F32 (samples * T), cross entropy of each token.
  Tensor losses(const nn::BufferView& boundary) const { return boundary.rows(losses_); }

  // `label_smoothing` counts on the last stage alone. Under full recomputation the activation
  // buffer is scratch.
  void forward(Pass& pass, float label_smoothing) const;
  // Only under full recomputation: fills the activation buffer from the boundary buffer's input. It
  // does not touch the output, where the gradient may be arriving.
  void recompute(Pass& pass) const;
  void backward(Pass& pass) const;
  void backward_input(Pass& pass) const;   // only of a stage declared with split_backward
  void backward_weight(Pass& pass) const;  // after backward_input of the same samples

 private:
  void declare_boundary(Index rows);
  void declare_split_stash(Index rows);
  void declare_head(Index rows);
  void embed(Pass& pass) const;
  void head(Pass& pass, float label_smoothing) const;
  void run_blocks(Pass& pass, Tensor y) const;
  void backward_blocks(Pass& pass, nn::Block::Part part) const;
  Tensor block_input(const Pass& pass, std::size_t i) const;
  Tensor head_weight(const Pass& pass) const;
  Tensor head_gradient(const Pass& pass) const;
  void backward_embedding(Pass& pass) const;

  ModelConfig config_;
  bool first_, last_, split_;
  Recompute recompute_;
  DType type_;
  ParameterLayout params_;
  Layout boundary_, activations_, workspace_;
  std::optional<Region> wte_, wpe_, lm_head_;  // in params_; wte and lm_head only when untied
  Region tied_;                                // in the tied pseudo-stage's layout
  std::vector<nn::Block> blocks_;
  std::optional<nn::LayerNorm> ln_f_;
  Region input_, output_, tokens_, targets_, losses_;  // in edge_; output_ is the gradient's too
  std::vector<nn::Block::Memory> memory_;              // per block
  std::vector<Region> between_;    // in activations_: (R, C) outputs of all blocks but the last
  nn::LayerNorm::Saved norm_f_{};  // in workspace_, as what follows
  Region head_rows_{}, head_drows_{}, logits_{};  // (R, C) (R, C) (chunk, V)
};

}  // namespace chimera::model
