#include "chimera/model/decoder.h"

#include <algorithm>

#include "parameters.h"

namespace chimera::model {

Decoder::Decoder(const ModelConfig& m, Device& device, Ops& ops)
    : config_(m),
      device_(device),
      ops_(ops),
      embedding_(params_, embedding_config(m), /*tied=*/std::nullopt) {
  const nn::BlockConfig block = block_config(m);
  const Index P = m.n_positions, C = m.n_embd;
  for (Index layer = 0; layer < m.n_layer; ++layer) {
    blocks_.emplace_back(params_, block, static_cast<int>(layer), order_of_block(layer));
    keys_.push_back(cache_layout_.add("keys", DType::F32, {P, C}));
    values_.push_back(cache_layout_.add("values", DType::F32, {P, C}));
  }
  head_.emplace(params_, head_config(m),
                m.tied_embeddings ? std::optional(embedding_.tokens()) : std::nullopt);
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
  // The rows are one sample of R tokens.
  nn::Pass pass{.ops = ops_,
                .mode = nn::Mode::Evaluate,
                .weights = weights,
                .activations = {.samples = 1, .T = R},
                .workspace = workspace};
  embedding_.forward(pass, x, ids, R, position_);
  for (std::size_t i = 0; i < blocks_.size(); ++i)
    blocks_[i].decode(pass, scratch_, x, cache.at(keys_[i]), cache.at(values_[i]), position_);
  const auto first_row = [&](const Region& r) { return workspace.at(r).rows(0, 1); };
  head_->decode(pass, workspace.at(logits_).reshaped({1, config_.vocab_size}),
                first_row(scratch_.norm), first_row(scratch_.mean), first_row(scratch_.rstd),
                x.rows(R - 1, 1));
  position_ += R;
}

}  // namespace chimera::model
