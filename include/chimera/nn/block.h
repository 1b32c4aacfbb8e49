#pragma once
// One pre-norm transformer block of GPT-2:
//   mid = x + dropout(attention(ln_1(x)) W_o + b_o);   y = mid + dropout(gelu(ln_2(mid) W_1 + b_1)
//   W_2 + b_2)
#include "chimera/nn/layernorm.h"
#include "chimera/nn/linear.h"

namespace chimera::nn {

struct BlockConfig {
  Index C = 0, H = 0;
  float epsilon = 1e-5f, attn_pdrop = 0, resid_pdrop = 0;
  float deviation = 0.02f,
        residual_deviation = 0.02f;  // of the initial matrices; of those that end a branch
};

class Block {
 public:
  static constexpr int kParameters = 12;

  // Declares the parameters of block `layer` (transformer.h.<layer>.…); `order` is the first one's
  // position.
  Block(ParameterLayout& params, const BlockConfig& config, int layer, int order);

  // What backward needs, per slot. R = samples * T.
  struct Saved {
    Region ln1, qkv, heads, mid, ln2, fc, gelu,
        y;                          // (R, C) (R, 3C) (R, C) (R, C) (R, C) (R, 4C) (R, 4C) (R, C)
    LayerNorm::Saved norm1, norm2;  // (R)
    Region lse;                     // (samples, H, T)
  };
  static Saved declare_saved(Layout& slot, const std::string& name, const BlockConfig&,
                             Index samples, Index T);

  // Output gradients of the four linear layers: what backward_weight needs besides Saved. They live
  // in the workspace for a whole backward, in the slot when the two halves are separate
  // instructions.
  struct Stash {
    Region d_qkv, d_attn, d_fc, d_mlp;  // (R, 3C) (R, C) (R, 4C) (R, C)
  };
  static Stash declare_stash(Layout& layout, const BlockConfig&, Index rows);

  // Scratch of one backward_input.
  struct Scratch {
    Region rows, delta;  // (R, C)   (samples, H, T)
  };
  static Scratch declare_scratch(Layout& workspace, const BlockConfig&, Index samples, Index T);

  void forward(Pass& pass, const Saved& saved, Tensor x) const;
  // g (R, C) holds dy and becomes dx. `stash_memory` is what `stash` was declared in.
  void backward_input(Pass& pass, const Saved& saved, const Stash& stash,
                      const SlotView& stash_memory, const Scratch& scratch, Tensor g,
                      Tensor x) const;
  void backward_weight(Pass& pass, const Saved& saved, const Stash& stash,
                       const SlotView& stash_memory) const;

  // Generation: x (R, C) holds new rows of one sequence at positions first … and becomes their
  // output; keys and values (P, C) are this block's cache.
  struct DecodeScratch {
    Region norm, mean, rstd, qkv, branch, fc;  // (R, C) (R) (R) (R, 3C) (R, C) (R, 4C)
  };
  static DecodeScratch declare_decode(Layout& workspace, const BlockConfig&, Index rows);
  void decode(Pass& pass, const DecodeScratch& scratch, Tensor x, Tensor keys, Tensor values,
              Index first) const;

 private:
  BlockConfig config_;
  int layer_;
  LayerNorm ln_1_;
  Linear c_attn_, attn_c_proj_;
  LayerNorm ln_2_;
  Linear c_fc_, mlp_c_proj_;
};

}  // namespace chimera::nn
