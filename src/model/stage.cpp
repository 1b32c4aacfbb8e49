#include "chimera/model/stage.h"

#include <algorithm>
#include <numeric>

#include "chimera/model/parameters.h"

namespace chimera::model {

using nn::Block;
using nn::BufferView;

ParameterLayout tied_parameters(const ModelConfig& config) {
  ParameterLayout params;
  declare_wte(params, config);
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
  if (m.tied_embeddings) tied_ = tied_parameters(m).parameters.front().region;
  if (first_ && !m.tied_embeddings) wte_ = declare_wte(params_, m);
  if (first_) wpe_ = declare_wpe(params_, m);
  declare_boundary(R);
  const Block::Scratch scratch = Block::declare_scratch(workspace_, block, samples, T);
  const Block::Stash stash =
      split_ ? Block::Stash{} : Block::declare_whole_stash(workspace_, block, scratch, R);
  Index layer = std::accumulate(layers.begin(), layers.begin() + stage, Index{0});
  for (Index i = 0; i < count; ++i, ++layer) {
    const std::string name = "h." + std::to_string(layer);
    blocks_.emplace_back(params_, block, static_cast<int>(layer), order_of_block(layer));
    memory_.push_back(
        {.saved = Block::declare_saved(activations_, name, block, samples, T, recompute),
         .stash = stash,
         .scratch = scratch});
    if (i + 1 < count) between_.push_back(activations_.add(name + ".y", type, {R, m.n_embd}));
  }
  if (split_) declare_split_stash(R);
  if (last_) declare_head(R);
}

void Stage::declare_boundary(Index R) {
  input_ = boundary_.add("input", type_, {R, config_.n_embd});
  output_ = boundary_.add("output, gradient", type_, {R, config_.n_embd});
  tokens_ = boundary_.add("tokens", DType::I32, {R});
  targets_ = boundary_.add("targets", DType::I32, {R});
  losses_ = boundary_.add("losses", DType::F32, {R});
}

// In the place of what the input gradients have used up, where the weight gradients do not need it
// (Block::Stash). Selective recomputation makes its outputs from those very tensors.
void Stage::declare_split_stash(Index R) {
  const Index C = config_.n_embd;
  const auto own = [&](const char* name, Index width) {
    return activations_.add(name, type_, {R, width});
  };
  const bool reuse = recompute_ != Recompute::Selective;
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    const bool top = i + 1 == blocks_.size();
    const Block::Saved& saved = memory_[i].saved;
    memory_[i].stash = {.d_qkv = top ? own("d_qkv", 3 * C) : memory_[i + 1].saved.qkv,
                        .d_attn = reuse ? saved.mid : own("d_attn", C),
                        .d_fc = reuse ? saved.fc : own("d_fc", 4 * C),
                        .d_mlp = reuse && !top ? between_[i] : own("d_mlp", C)};
  }
}

// Shares the workspace with the blocks: never in use at the same time.
void Stage::declare_head(Index R) {
  const Index C = config_.n_embd, V = config_.vocab_size;
  ln_f_ = declare_ln_f(params_, config_);
  if (!config_.tied_embeddings) lm_head_ = declare_lm_head(params_, config_);
  const Index chunk = std::clamp<Index>(kHeadChunkBytes / (V * size_of(type_)), 1, R);
  Layout head;
  norm_f_ = nn::LayerNorm::declare(head, "ln_f", R);
  head_rows_ = head.add("head.rows", type_, {R, C});
  head_drows_ = head.add("head.drows", type_, {R, C});
  logits_ = head.add("head.logits", type_, {chunk, V});
  workspace_.reserve(head.bytes());
}

Tensor Stage::block_input(const Pass& pass, std::size_t i) const {
  return i == 0 ? input(pass.boundary) : pass.activations.rows(between_[i - 1]);
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
      input(pass.boundary), tokens(pass.boundary), wte, pass.weights.at(*wpe_), pass.boundary.T,
      pass.dropout(static_cast<float>(config_.embd_pdrop), 0, DropoutSite::Embedding));
}

void Stage::backward_embedding(Pass& pass) const {
  const Tensor dwte =
      config_.tied_embeddings ? pass.tied_embedding_gradients.at(tied_) : pass.gradients.at(*wte_);
  const Tensor dwpe = config_.position_encoding == "learned" ? pass.gradients.at(*wpe_) : Tensor();
  pass.ops.embedding_backward(
      dwte, dwpe, gradient(pass.boundary), tokens(pass.boundary), pass.boundary.T,
      pass.dropout(static_cast<float>(config_.embd_pdrop), 0, DropoutSite::Embedding));
}

void Stage::head(Pass& pass, float label_smoothing) const {
  const BufferView& boundary = pass.boundary;
  const BufferView work = pass.scratch();
  const bool train = pass.mode == nn::Mode::Train;
  const Index R = boundary.samples * boundary.T, most = logits_.shape[0];
  const Tensor rows = work.rows(head_rows_), drows = work.rows(head_drows_);
  const Tensor mean = work.rows(norm_f_.mean), rstd = work.rows(norm_f_.rstd);
  const Tensor weight = head_weight(pass), y = output(boundary);
  ln_f_->forward(pass, rows, y, mean, rstd);
  for (Index begin = 0; begin < R; begin += most) {
    const Index count = std::min(most, R - begin);
    const Tensor logits = pass.workspace.at(logits_).rows(0, count);
    pass.ops.matmul(logits, rows.rows(begin, count), Transpose::No, weight, Transpose::Yes,
                    Write::Set);
    pass.ops.cross_entropy(losses(boundary).rows(begin, count), logits,
                           targets(boundary).rows(begin, count), label_smoothing, pass.loss_scale,
                           train ? Gradient::InPlace : Gradient::None);
    if (!train) continue;
    pass.ops.matmul(drows.rows(begin, count), logits, Transpose::No, weight, Transpose::No,
                    Write::Set);
    pass.ops.matmul(head_gradient(pass), logits, Transpose::Yes, rows.rows(begin, count),
                    Transpose::No, Write::Add);
  }
  if (train) ln_f_->backward(pass, gradient(boundary), drows, y, mean, rstd, Write::Set);
}

void Stage::run_blocks(Pass& pass, Tensor y) const {
  for (std::size_t i = 0; i < blocks_.size(); ++i)
    blocks_[i].forward(pass, memory_[i], block_input(pass, i),
                       i + 1 < blocks_.size() ? pass.activations.rows(between_[i]) : y);
}

void Stage::forward(Pass& pass, float label_smoothing) const {
  if (first_) embed(pass);
  run_blocks(pass, output(pass.boundary));
  if (last_) head(pass, label_smoothing);
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
  if (first_ && part != Block::Part::Input) backward_embedding(pass);
}

void Stage::backward(Pass& pass) const { backward_blocks(pass, Block::Part::Whole); }
void Stage::backward_input(Pass& pass) const { backward_blocks(pass, Block::Part::Input); }
void Stage::backward_weight(Pass& pass) const { backward_blocks(pass, Block::Part::Weight); }

}  // namespace chimera::model
