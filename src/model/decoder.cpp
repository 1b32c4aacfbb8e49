#include "chimera/model/decoder.h"

#include <algorithm>

#include "parameters.h"

namespace chimera::model {

Decoder::Decoder(const ModelConfig& m, Device& device, Ops& ops)
    : config_(m), device_(device), ops_(ops) {
  wte_ = declare_wte(params_, m);
  wpe_ = declare_wpe(params_, m);
  const nn::BlockConfig block = block_config(m);
  const Index P = m.n_positions, C = m.n_embd;
  for (Index layer = 0; layer < m.n_layer; ++layer) {
    blocks_.emplace_back(params_, block, static_cast<int>(layer), order_of_block(layer));
    keys_.push_back(cache_layout_.add("keys", DType::F32, {P, C}));
    values_.push_back(cache_layout_.add("values", DType::F32, {P, C}));
  }
  ln_f_ = declare_ln_f(params_, m);
  lm_head_ = m.tied_embeddings ? wte_ : declare_lm_head(params_, m);
  scratch_ = nn::Block::declare_decode(workspace_layout_, block, kRows);
  rows_ = workspace_layout_.add("rows", DType::F32, {kRows, C});
  tokens_ = workspace_layout_.add("tokens", DType::I32, {kRows});
  logits_ = workspace_layout_.add("logits", DType::F32, {m.vocab_size});
  weights_ = Buffer(device, params_.layout.bytes());
  workspace_ = Buffer(device, workspace_layout_.bytes());
  cache_ = Buffer(device, cache_layout_.bytes());
}

void Decoder::for_each_weight(const std::function<void(const nn::Parameter&, Tensor)>& visit) {
  for (const nn::Parameter& p : params_.parameters) visit(p, Flat{weights_.data()}.at(p.region));
}

Tensor Decoder::append(std::span<const std::int32_t> tokens) {
  const Index n = static_cast<Index>(tokens.size());
  ENSURE(n >= 1 && position_ + n <= capacity(), "the context holds ", capacity(), " tokens; ",
         position_, " are in it and ", n, " more do not fit");
  for (Index done = 0; done < n; done += kRows)
    append_rows(tokens.subspan(static_cast<std::size_t>(done),
                               static_cast<std::size_t>(std::min(kRows, n - done))));
  return Flat{workspace_.data()}.at(logits_);
}

void Decoder::append_rows(std::span<const std::int32_t> tokens) {
  const Index R = static_cast<Index>(tokens.size());
  const Flat workspace{workspace_.data()}, weights{weights_.data()}, cache{cache_.data()};
  const Tensor x = workspace.at(rows_).rows(0, R), ids = workspace.at(tokens_).rows(0, R);
  device_.copy_in(ids.raw(), tokens.data(), ids.bytes());
  nn::Pass pass{
      .ops = ops_, .mode = nn::Mode::Evaluate, .weights = weights, .workspace = workspace};
  // Row r stands at position_ + r: the embedding is given the positions from there on.
  ops_.embedding_forward(x, ids, weights.at(wte_), weights.at(wpe_).rows(position_, R), R, {});
  for (std::size_t i = 0; i < blocks_.size(); ++i)
    blocks_[i].decode(pass, scratch_, x, cache.at(keys_[i]), cache.at(values_[i]), position_);
  const Tensor last = x.rows(R - 1, 1);
  const Tensor norm = workspace.at(scratch_.norm).rows(0, 1);
  ln_f_->forward(pass, norm, last, workspace.at(scratch_.mean).rows(0, 1),
                 workspace.at(scratch_.rstd).rows(0, 1));
  ops_.matmul(workspace.at(logits_).reshaped({1, config_.vocab_size}), norm, Transpose::No,
              weights.at(lm_head_), Transpose::Yes, Write::Set);
  position_ += R;
}

}  // namespace chimera::model
