#pragma once
// Causal self-attention with H heads: y = heads(x W_qkv + b_qkv) W_o + b_o.   x, y (R, C)
#include "chimera/nn/dropout.h"
#include "chimera/nn/linear.h"

namespace chimera::nn {

struct AttentionConfig {
  Index C = 0, H = 0;
  float pdrop = 0;                                    // of the probabilities
  float deviation = 0.02f, output_deviation = 0.02f;  // of the initial W_qkv, W_o
  DType type = DType::F32;
};

class Attention {
 public:
  static constexpr int kParameters = 2 * Linear::kParameters;
  // Declares prefix.c_attn and prefix.c_proj; `order` is the first one's position.
  Attention(ParameterLayout& params, const std::string& prefix, const AttentionConfig& config,
            int layer, int order);

  // From the forward to the backward, in the activation buffer. The T x T matrix is never stored.
  struct Saved {
    Region qkv, heads, lse;  // (R, 3C) (R, C) (samples, H, T)
  };
  Saved declare_saved(Layout& activations, const std::string& name, Index samples, Index T) const;
  Region declare_delta(Layout& workspace, Index samples, Index T) const;  // scratch of backward

  void forward(Pass& pass, const Saved& saved, Tensor y, Tensor x) const;
  // d_qkv (R, 3C) and dx from dy; dx holds the gradient of the heads before. Nothing overlaps.
  void backward_input(Pass& pass, const Saved& saved, Tensor dx, Tensor d_qkv, const Region& delta,
                      Tensor dy) const;
  void backward_weight(Pass& pass, const Saved& saved, Tensor d_qkv, Tensor dy, Tensor x) const;

  // Generation: the rows of one sequence at positions first …, against the cache (P, C) of keys and
  // values. qkv (R, 3C) is scratch; x is overwritten.
  void decode(Pass& pass, Tensor y, Tensor qkv, Tensor keys, Tensor values, Tensor x,
              Index first) const;

 private:
  AttentionConfig config_;
  Linear c_attn_, c_proj_;
  DropoutLayer dropout_;
};

}  // namespace chimera::nn
