#pragma once
// What the layers of a GPT-2 are told about its parameters. Model order: embedding, blocks, head.
#include "chimera/model/config.h"
#include "chimera/nn/block.h"
#include "chimera/nn/head.h"

namespace chimera::model {

nn::EmbeddingConfig embedding_config(const ModelConfig& config);
nn::BlockConfig block_config(const ModelConfig& config);
nn::HeadConfig head_config(const ModelConfig& config);
int order_of_block(Index layer);

}  // namespace chimera::model
