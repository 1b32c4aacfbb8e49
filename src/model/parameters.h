#pragma once
// The parameters of a GPT-2 and their places in the model order: wte 0, wpe 1, blocks, ln_f,
// lm_head.
#include "chimera/model/config.h"
#include "chimera/nn/block.h"

namespace chimera::model {

nn::BlockConfig block_config(const ModelConfig& config);
int order_of_block(Index layer);
Region declare_wte(nn::ParameterLayout& params, const ModelConfig& config);  // (V, C)
Region declare_wpe(nn::ParameterLayout& params, const ModelConfig& config);  // (P, C)
nn::LayerNorm declare_ln_f(nn::ParameterLayout& params, const ModelConfig& config);
Region declare_lm_head(nn::ParameterLayout& params, const ModelConfig& config);  // (V, C)

}  // namespace chimera::model
