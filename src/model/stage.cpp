#include "chimera/model/stage.h"

#include <numeric>

#include "parameters.h"

namespace chimera::model {

using nn::Block;
using nn::BufferView;

ParameterLayout tied_parameters(const ModelConfig& config) {
  ParameterLayout params;
  nn::Embedding::declare_tokens(params, embedding_config(config));
  return params;
}

Stage::Stage(const ModelConfig& m, const std::vector<Index>& layers, int stage, Index samples,
             Index T, bool split_backward, Recompute recompute, DType type)
    : config_(m),
      first_(stage == 0),
      last_(stage + 1 == static_cast<int>(layers.size())),
      split_(split_backward),
      recompute_(recompute),
      type_(type) {
  const Index R = checked_mul(samples, T), count = layers[static_cast<std::size_t>(stage)];
  ENSURE(count >= 1, "stage ", stage, " has ", count, " layers; every stage needs at least one");
  nn::BlockConfig block = block_config(m);
  block.type = type;
  std::optional<Region> tied;
  if (m.tied_embeddings) tied = tied_parameters(m).parameters.front().region;
  declare_boundary(R);
  if (first_) embedding_.emplace(params_, embedding_config(m), tied);
  Index layer = std::accumulate(layers.begin(), layers.begin() + stage, Index{0});
  for (Index i = 0; i < count; ++i, ++layer) {
    const std::string name = "h." + std::to_string(layer);
    blocks_.emplace_back(params_, block, static_cast<int>(layer), order_of_block(layer));
    memory_.push_back(
        {.saved = blocks_.back().declare_saved(activations_, name, samples, T, recompute)});
    if (i + 1 < count) between_.push_back(activations_.add(name + ".y", type, {R, m.n_embd}));
  }
  declare_backward(samples, T);
  if (!last_) return;
  head_.emplace(params_, head_config(m),
                tied ? std::optional(nn::TokenMatrix{*tied, true}) : std::nullopt);
  Layout head;  // shares the workspace with the blocks: never in use at the same time
  head_scratch_ = head_->declare_scratch(head, R, type);
  workspace_.reserve(head.bytes());
}

void Stage::declare_boundary(Index R) {
  input_ = boundary_.add("input", type_, {R, config_.n_embd});
  output_ = boundary_.add("output, gradient", type_, {R, config_.n_embd});
  tokens_ = boundary_.add("tokens", DType::I32, {R});
  targets_ = boundary_.add("targets", DType::I32, {R});
  losses_ = boundary_.add("losses", DType::F32, {R});
}

// Scratch and stash of the backward. A whole one has one stash for all blocks.
void Stage::declare_backward(Index samples, Index T) {
  const Block& any = blocks_.front();
  const Index R = samples * T;
  const Block::Scratch scratch = any.declare_scratch(workspace_, samples, T);
  const Block::Stash whole =
      split_ ? Block::Stash{} : any.declare_whole_stash(workspace_, scratch, R);
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    std::optional<Block::Above> above;
    if (i + 1 < blocks_.size())
      above = {.qkv = memory_[i + 1].saved.attention.qkv, .output = between_[i]};
    memory_[i].scratch = scratch;
    memory_[i].stash =
        split_ ? any.declare_split_stash(activations_, memory_[i].saved, above, R, recompute_)
               : whole;
  }
}

Tensor Stage::block_input(const Pass& pass, std::size_t i) const {
  return i == 0 ? input(pass.boundary) : pass.activations.rows(between_[i - 1]);
}

void Stage::run_blocks(Pass& pass, Tensor y) const {
  for (std::size_t i = 0; i < blocks_.size(); ++i)
    blocks_[i].forward(pass, memory_[i], block_input(pass, i),
                       i + 1 < blocks_.size() ? pass.activations.rows(between_[i]) : y);
}

void Stage::forward(Pass& pass, float label_smoothing) const {
  const BufferView& boundary = pass.boundary;
  if (first_) embedding_->forward(pass, input(boundary), tokens(boundary), boundary.T);
  run_blocks(pass, output(boundary));
  if (last_)
    head_->forward(pass, head_scratch_, losses(boundary), gradient(boundary), output(boundary),
                   targets(boundary), label_smoothing);
}

void Stage::recompute(Pass& pass) const {
  ENSURE(recompute_ == Recompute::Full,
         "a stage that keeps its activations is told to make them again");
  run_blocks(pass, {});
}

void Stage::backward_blocks(Pass& pass, Block::Part part) const {
  ENSURE(split_ == (part != Block::Part::Whole), "a stage ", split_ ? "with" : "without",
         " a split backward is told to run ", split_ ? "a whole one" : "half of one");
  for (std::size_t i = blocks_.size(); i-- > 0;)
    blocks_[i].backward(pass, memory_[i], part, gradient(pass.boundary), block_input(pass, i));
  if (first_ && part != Block::Part::Input)
    embedding_->backward(pass, gradient(pass.boundary), tokens(pass.boundary), pass.boundary.T);
}

void Stage::backward(Pass& pass) const { backward_blocks(pass, Block::Part::Whole); }
void Stage::backward_input(Pass& pass) const { backward_blocks(pass, Block::Part::Input); }
void Stage::backward_weight(Pass& pass) const { backward_blocks(pass, Block::Part::Weight); }

}  // namespace chimera::model
