#include "chimera/nn/embedding.h"

namespace chimera::nn {

Region Embedding::declare_tokens(ParameterLayout& params, const EmbeddingConfig& config) {
  return params.add("transformer.wte.weight", {config.V, config.C},
                    {.order = 0, .init = Init::Normal, .deviation = config.deviation});
}

Embedding::Embedding(ParameterLayout& params, const EmbeddingConfig& config,
                     std::optional<Region> tied)
    : config_(config),
      wte_(tied ? TokenMatrix{*tied, true} : TokenMatrix{declare_tokens(params, config)}),
      wpe_(params.add("transformer.wpe.weight", {config.P, config.C},
                      {.order = 1,
                       .init = config.learned_positions ? Init::Normal : Init::Sinusoidal,
                       .deviation = config.deviation,
                       .frozen = !config.learned_positions})),
      dropout_(config.pdrop, 0, DropoutSite::Embedding) {}

void Embedding::forward(Pass& pass, Tensor x, Tensor tokens, Index T, Index position) const {
  const Tensor positions = pass.weights.at(wpe_).rows(position, config_.P - position);
  pass.ops.embedding_forward(x, tokens, wte_.weights(pass), positions, T, dropout_.mask(pass));
}

void Embedding::backward(Pass& pass, Tensor dx, Tensor tokens, Index T) const {
  const Tensor dwte = (wte_.tied ? pass.tied_embedding_gradients : pass.gradients).at(wte_.region);
  const Tensor dwpe = config_.learned_positions ? pass.gradients.at(wpe_) : Tensor();
  pass.ops.embedding_backward(dwte, dwpe, dx, tokens, T, dropout_.mask(pass));
}

}  // namespace chimera::nn
