#pragma once
// One pre-norm transformer block of GPT-2:
//   mid = x + dropout(attention(ln_1(x)) W_o + b_o);   y = mid + dropout(gelu(ln_2(mid) W_1 + b_1)
//   W_2 + b_2)
#include <optional>

#include "chimera/nn/layernorm.h"
#include "chimera/nn/linear.h"

namespace chimera::nn {

// What backward finds in the activation buffer, and what is made again. Dropout masks and therefore
// results are the same bits in all three.
enum class Recompute {
  None,
  Selective,  // ln_1, ln_2 and gelu, which memory traffic bounds, are made again where needed
  Full        // the activation buffer is empty between Forward and Stage::recompute
};

struct BlockConfig {
  Index C = 0, H = 0;
  float epsilon = 1e-5f, attn_pdrop = 0, resid_pdrop = 0;
  float deviation = 0.02f,
        residual_deviation = 0.02f;  // of the initial matrices; of those that end a branch
  DType type = DType::F32;           // of activations and their gradients; statistics are F32
};

class Block {
 public:
  static constexpr int kParameters = 12;

  // Declares the parameters of block `layer` (transformer.h.<layer>.…); `order` is the first one's
  // position.
  Block(ParameterLayout& params, const BlockConfig& config, int layer, int order);

  // From the forward to the backward, in the activation buffer. R = samples * T.
  struct Saved {
    Region qkv, heads, mid, fc;            // (R, 3C) (R, C) (R, C) (R, 4C)
    std::optional<Region> ln1, ln2, gelu;  // (R, C) (R, C) (R, 4C); none under Selective
    LayerNorm::Saved norm1, norm2;         // (R)
    Region lse;                            // (samples, H, T)
  };
  static Saved declare_saved(Layout& activations, const std::string& name, const BlockConfig&,
                             Index samples, Index T, Recompute);

  // Output gradients of the four linear layers, (R, 3C) (R, C) (R, 4C) (R, C): in the workspace for
  // a whole backward, in the activation buffer from its input half to its weight half when it is
  // split. Regions may be shared with what is dead by then:
  //   - whole: d_qkv with d_fc, d_attn with d_mlp;
  //   - split: d_qkv with the qkv of another block whose input half is done; unless Selective, d_fc
  //     with fc, d_attn with mid, d_mlp with this block's output.
  struct Stash {
    Region d_qkv, d_attn, d_fc, d_mlp;
  };
  // Scratch of one call, in the workspace; `wide` may be shared with a whole backward's d_fc.
  struct Scratch {
    Region rows, wide, delta;  // (R, C) (R, 4C) (samples, H, T)
  };
  static Scratch declare_scratch(Layout& workspace, const BlockConfig&, Index samples, Index T);
  // The stash of a whole backward, shared with all that may be.
  static Stash declare_whole_stash(Layout& workspace, const BlockConfig&, const Scratch&,
                                   Index rows);

  struct Memory {
    Saved saved;
    Stash stash;
    Scratch scratch;
  };

  // x, y (R, C). An empty y is left out with all that it alone needs: to fill the activation buffer
  // again.
  void forward(Pass& pass, const Memory& memory, Tensor x, Tensor y) const;

  // g (R, C) holds dy and becomes dx. The weight half adds the gradients of the linear layers from
  // what the input half left in the stash (the norms' are cheap and belong to the input half) and
  // does not look at g; at x only under Selective.
  enum class Part { Whole, Input, Weight };
  void backward(Pass& pass, const Memory& memory, Part part, Tensor g, Tensor x) const;

  // Generation: x (R, C) holds new rows of one sequence at positions first … and becomes their
  // output; keys and values (P, C) are this block's cache.
  struct DecodeScratch {
    Region norm, mean, rstd, qkv, branch, fc;  // (R, C) (R) (R) (R, 3C) (R, C) (R, 4C)
  };
  static DecodeScratch declare_decode(Layout& workspace, const BlockConfig&, Index rows);
  void decode(Pass& pass, const DecodeScratch& scratch, Tensor x, Tensor keys, Tensor values,
              Index first) const;

 private:
  void backward_mlp(Pass& pass, const Memory& memory, Part part, Tensor g) const;
  void backward_attention(Pass& pass, const Memory& memory, Part part, Tensor g, Tensor x) const;

  BlockConfig config_;
  int layer_;
  LayerNorm ln_1_;
  Linear c_attn_, attn_c_proj_;
  LayerNorm ln_2_;
  Linear c_fc_, mlp_c_proj_;
};

}  // namespace chimera::nn
