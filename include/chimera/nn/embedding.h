#pragma once
// x = dropout(wte[token] + wpe[position]): GPT-2's token and position embeddings.   x (R, C)
#include <optional>

#include "chimera/nn/dropout.h"
#include "chimera/nn/params.h"

namespace chimera::nn {

// The (V, C) matrix of the tokens: a parameter of the stage, or the tied one, which embedding and
// head share and which is a stage of its own.
struct TokenMatrix {
  Region region;
  bool tied = false;
  Tensor weights(const Pass& pass) const {
    return (tied ? pass.tied_weights : pass.weights).at(region);
  }
};

struct EmbeddingConfig {
  Index V = 0, C = 0, P = 0;      // tokens, channels, positions
  bool learned_positions = true;  // or sinusoidal, which no gradient changes
  float pdrop = 0, deviation = 0.02f;
};

class Embedding {
 public:
  static constexpr int kParameters = 2;
  // Declares transformer.wte, unless `tied` is given, and transformer.wpe: the first of a model.
  Embedding(ParameterLayout& params, const EmbeddingConfig& config, std::optional<Region> tied);
  static Region declare_tokens(ParameterLayout& params, const EmbeddingConfig& config);  // wte

  const TokenMatrix& tokens() const { return wte_; }

  // tokens I32 (R); the first one of a sample stands at `position`.
  void forward(Pass& pass, Tensor x, Tensor tokens, Index T, Index position = 0) const;
  // Gradients of the weights alone; dx becomes the gradient before the dropout.
  void backward(Pass& pass, Tensor dx, Tensor tokens, Index T) const;

 private:
  EmbeddingConfig config_;
  TokenMatrix wte_;
  Region wpe_;
  DropoutLayer dropout_;
};

}  // namespace chimera::nn
