#include "parameters.h"

#include <cmath>

namespace chimera::model {

nn::EmbeddingConfig embedding_config(const ModelConfig& m) {
  return {.V = m.vocab_size,
          .C = m.n_embd,
          .P = m.n_positions,
          .learned_positions = m.position_encoding == "learned",
          .pdrop = static_cast<float>(m.embd_pdrop),
          .deviation = static_cast<float>(m.initializer_range)};
}

nn::BlockConfig block_config(const ModelConfig& m) {
  const auto deviation = static_cast<float>(m.initializer_range);
  return {.C = m.n_embd,
          .H = m.n_head,
          .epsilon = static_cast<float>(m.layer_norm_epsilon),
          .attn_pdrop = static_cast<float>(m.attn_pdrop),
          .resid_pdrop = static_cast<float>(m.resid_pdrop),
          .deviation = deviation,
          // Radford et al. 2019, section 2.3: residual layers start smaller by the root of their
          // number.
          .residual_deviation = deviation / std::sqrt(2.0f * static_cast<float>(m.n_layer))};
}

nn::HeadConfig head_config(const ModelConfig& m) {
  return {.V = m.vocab_size,
          .C = m.n_embd,
          .epsilon = static_cast<float>(m.layer_norm_epsilon),
          .deviation = static_cast<float>(m.initializer_range),
          .order = order_of_block(m.n_layer),
          .depth = static_cast<int>(m.n_layer) + 1};
}

int order_of_block(Index layer) {
  return nn::Embedding::kParameters + nn::Block::kParameters * static_cast<int>(layer);
}

}  // namespace chimera::model
