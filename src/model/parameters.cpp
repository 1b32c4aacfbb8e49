#include "parameters.h"

#include <cmath>

namespace chimera::model {

using nn::Init;

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

int order_of_block(Index layer) { return 2 + nn::Block::kParameters * static_cast<int>(layer); }

Region declare_wte(nn::ParameterLayout& params, const ModelConfig& m) {
  return params.add("transformer.wte.weight", {m.vocab_size, m.n_embd},
                    {.order = 0, .init = Init::Normal, .deviation = block_config(m).deviation});
}

Region declare_wpe(nn::ParameterLayout& params, const ModelConfig& m) {
  const bool learned = m.position_encoding == "learned";
  return params.add("transformer.wpe.weight", {m.n_positions, m.n_embd},
                    {.order = 1,
                     .init = learned ? Init::Normal : Init::Sinusoidal,
                     .deviation = block_config(m).deviation,
                     .frozen = !learned});
}

nn::LayerNorm declare_ln_f(nn::ParameterLayout& params, const ModelConfig& m) {
  return {params,
          "transformer.ln_f",
          m.n_embd,
          order_of_block(m.n_layer),
          static_cast<int>(m.n_layer) + 1,
          static_cast<float>(m.layer_norm_epsilon)};
}

Region declare_lm_head(nn::ParameterLayout& params, const ModelConfig& m) {
  return params.add("lm_head.weight", {m.vocab_size, m.n_embd},
                    {.order = order_of_block(m.n_layer) + 2,
                     .depth = static_cast<int>(m.n_layer) + 1,
                     .init = Init::Normal,
                     .deviation = block_config(m).deviation});
}

}  // namespace chimera::model
