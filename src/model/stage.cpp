#include "chimera/model/stage.h"

#include <algorithm>

#include "chimera/model/parameters.h"

namespace chimera::model {

using nn::Block;
using nn::SlotView;

ParameterLayout tied_parameters(const ModelConfig& config) {
  ParameterLayout params;
  declare_wte(params, config);
  return params;
}

Stage::Stage(const ModelConfig& m, const std::vector<Index>& layers, int stage, Index samples,
             Index T, bool split_backward)
    : config_(m),
      first_(stage == 0),
      last_(stage + 1 == static_cast<int>(layers.size())),
      split_(split_backward) {
  const Index R = samples * T, C = m.n_embd;
  const nn::BlockConfig block = block_config(m);
  if (m.tied_embeddings) tied_ = tied_parameters(m).parameters.front().region;

  if (first_ && !m.tied_embeddings) wte_ = declare_wte(params_, m);
  if (first_) wpe_ = declare_wpe(params_, m);
  input_ = slot_.add("input", DType::F32, {R, C});
  gradient_ = slot_.add("gradient", DType::F32, {R, C});
  tokens_ = slot_.add("tokens", DType::I32, {R});
  targets_ = slot_.add("targets", DType::I32, {R});
  losses_ = slot_.add("losses", DType::F32, {R});
  Index layer = 0;
  for (int s = 0; s < stage; ++s) layer += layers[static_cast<std::size_t>(s)];
  for (Index i = 0; i < layers[static_cast<std::size_t>(stage)]; ++i, ++layer) {
    blocks_.emplace_back(params_, block, static_cast<int>(layer), order_of_block(layer));
    saved_.push_back(Block::declare_saved(slot_, "h." + std::to_string(layer), block, samples, T));
    if (split_ || i == 0)
      stash_.push_back(Block::declare_stash(split_ ? slot_ : workspace_, block, R));
  }
  scratch_ = Block::declare_scratch(workspace_, block, samples, T);
  if (!last_) return;

  ln_f_ = declare_ln_f(params_, m);
  norm_f_ = nn::LayerNorm::declare(slot_, "ln_f", R);
  if (!m.tied_embeddings) lm_head_ = declare_lm_head(params_, m);
  const Index chunk =
      std::clamp<Index>(kHeadChunkBytes / (m.vocab_size * size_of(DType::F32)), 1, R);
  Layout head;  // shares the workspace with the blocks' backward: never in use at the same time
  head_rows_ = head.add("head.rows", DType::F32, {R, C});
  head_drows_ = head.add("head.drows", DType::F32, {R, C});
  logits_ = head.add("head.logits", DType::F32, {chunk, m.vocab_size});
  workspace_.reserve(head.bytes());
}

Tensor Stage::output(const SlotView& slot) const { return slot.rows(saved_.back().y); }

Tensor Stage::block_input(const SlotView& slot, std::size_t i) const {
  return i == 0 ? input(slot) : slot.rows(saved_[i - 1].y);
}

Tensor Stage::head_weight(const Pass& pass) const {
  return config_.tied_embeddings ? pass.tied_weights.at(tied_) : pass.weights.at(*lm_head_);
}

Tensor Stage::head_gradient(const Pass& pass) const {
  return config_.tied_embeddings ? pass.tied_head_gradients.at(tied_)
                                 : pass.gradients.at(*lm_head_);
}

void Stage::embed(Pass& pass) const {
  const Tensor wte = config_.tied_embeddings ? pass.tied_weights.at(tied_) : pass.weights.at(*wte_);
  pass.ops.embedding_forward(
      input(pass.slot), tokens(pass.slot), wte, pass.weights.at(*wpe_), pass.slot.T,
      pass.dropout(static_cast<float>(config_.embd_pdrop), 0, DropoutSite::Embedding));
}

void Stage::backward_embedding(Pass& pass) const {
  const Tensor dwte =
      config_.tied_embeddings ? pass.tied_embedding_gradients.at(tied_) : pass.gradients.at(*wte_);
  const Tensor dwpe = config_.position_encoding == "learned" ? pass.gradients.at(*wpe_) : Tensor();
  pass.ops.embedding_backward(
      dwte, dwpe, gradient(pass.slot), tokens(pass.slot), pass.slot.T,
      pass.dropout(static_cast<float>(config_.embd_pdrop), 0, DropoutSite::Embedding));
}

void Stage::head(Pass& pass, float label_smoothing) const {
  const SlotView& slot = pass.slot;
  const bool train = pass.mode == nn::Mode::Train;
  const Index R = slot.samples * slot.T, most = logits_.shape[0];
  const Tensor rows = pass.workspace.at(head_rows_).rows(0, R),
               drows = pass.workspace.at(head_drows_).rows(0, R);
  const Tensor weight = head_weight(pass), y = output(slot);
  const Tensor mean = slot.rows(norm_f_.mean), rstd = slot.rows(norm_f_.rstd);
  ln_f_->forward(pass, rows, y, mean, rstd);
  for (Index begin = 0; begin < R; begin += most) {
    const Index count = std::min(most, R - begin);
    const Tensor logits = pass.workspace.at(logits_).rows(0, count);
    pass.ops.matmul(logits, rows.rows(begin, count), Transpose::No, weight, Transpose::Yes,
                    Write::Set);
    pass.ops.cross_entropy(losses(slot).rows(begin, count), logits,
                           targets(slot).rows(begin, count), label_smoothing, pass.loss_scale,
                           train ? Gradient::InPlace : Gradient::None);
    if (!train) continue;
    pass.ops.matmul(drows.rows(begin, count), logits, Transpose::No, weight, Transpose::No,
                    Write::Set);
    pass.ops.matmul(head_gradient(pass), logits, Transpose::Yes, rows.rows(begin, count),
                    Transpose::No, Write::Add);
  }
  if (train) ln_f_->backward(pass, gradient(slot), drows, y, mean, rstd, Write::Set);
}

void Stage::forward(Pass& pass, float label_smoothing) const {
  if (first_) embed(pass);
  for (std::size_t i = 0; i < blocks_.size(); ++i)
    blocks_[i].forward(pass, saved_[i], block_input(pass.slot, i));
  if (last_) head(pass, label_smoothing);
}

void Stage::backward(Pass& pass) const {
  ENSURE(!split_, "a stage with a split backward is told to run a whole one");
  const SlotView stash_memory{pass.workspace, 0, pass.slot.samples, pass.slot.T};
  for (std::size_t i = blocks_.size(); i-- > 0;) {
    blocks_[i].backward_input(pass, saved_[i], stash_[0], stash_memory, scratch_,
                              gradient(pass.slot), block_input(pass.slot, i));
    blocks_[i].backward_weight(pass, saved_[i], stash_[0], stash_memory);
  }
  if (first_) backward_embedding(pass);
}

void Stage::backward_input(Pass& pass) const {
  ENSURE(split_, "a stage without a split backward is told to run half of one");
  for (std::size_t i = blocks_.size(); i-- > 0;)
    blocks_[i].backward_input(pass, saved_[i], stash_[i], pass.slot, scratch_, gradient(pass.slot),
                              block_input(pass.slot, i));
}

void Stage::backward_weight(Pass& pass) const {
  ENSURE(split_, "a stage without a split backward is told to run half of one");
  for (std::size_t i = blocks_.size(); i-- > 0;)
    blocks_[i].backward_weight(pass, saved_[i], stash_[i], pass.slot);
  if (first_) backward_embedding(pass);
}

}  // namespace chimera::model
