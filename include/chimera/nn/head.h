#pragma once
// The end of the model: final norm, logits = ln_f(y) W', cross entropy.   y (R, C), W (V, C)
#include "chimera/nn/embedding.h"
#include "chimera/nn/layernorm.h"

namespace chimera::nn {

inline constexpr Index kHeadChunkBytes = Index{48} << 20;  // most memory of one chunk of logits

struct HeadConfig {
  Index V = 0, C = 0;
  float epsilon = 1e-5f, deviation = 0.02f;
  int order = 0, depth = 0;  // of the parameters (Parameter)
};

class Head {
 public:
  // Declares transformer.ln_f and, unless it multiplies with the embedding's matrix, lm_head.
  Head(ParameterLayout& params, const HeadConfig& config, std::optional<TokenMatrix> shared);

  // Scratch of one forward, in the workspace; the gradients come with it, so nothing is saved.
  struct Scratch {
    LayerNorm::Saved norm;
    Region rows, drows, logits;  // (R, C) (R, C) (chunk, V)
  };
  Scratch declare_scratch(Layout& workspace, Index rows, DType type) const;

  // Chunk of rows by chunk: logits, losses (R), their gradient in place, and from it at once the
  // gradients of W and of y, which dy receives (it may be y). So no more than one chunk of logits
  // exists at any time and nothing is computed twice. Evaluation computes the losses alone.
  void forward(Pass& pass, const Scratch& scratch, Tensor losses, Tensor dy, Tensor y,
               Tensor targets, float label_smoothing) const;

  // Generation: logits (R, V) of y; norm (R, C), mean and rstd (R) are scratch.
  void decode(Pass& pass, Tensor logits, Tensor norm, Tensor mean, Tensor rstd, Tensor y) const;

 private:
  HeadConfig config_;
  LayerNorm ln_f_;
  TokenMatrix matrix_;
};

}  // namespace chimera::nn
