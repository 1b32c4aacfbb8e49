#pragma once
// One pre-norm transformer block of GPT-2, composed of its layers:
//   mid = x + dropout(attention(ln_1(x)));   y = mid + dropout(mlp(ln_2(mid)))
#include "chimera/nn/attention.h"
#include "chimera/nn/mlp.h"
#include "chimera/nn/residual.h"

namespace chimera::nn {

struct BlockConfig {
  Index C = 0, H = 0;
  float epsilon = 1e-5f, attn_pdrop = 0, resid_pdrop = 0;
  float deviation = 0.02f,
        residual_deviation = 0.02f;  // of the initial matrices; of those that end a branch
  DType type = DType::F32;           // of activations and their gradients; statistics are F32
};

class Block {
 public:
  static constexpr int kParameters =
      2 * LayerNorm::kParameters + Attention::kParameters + Mlp::kParameters;

  // Declares the parameters of block `layer` (transformer.h.<layer>.…); `order` is the first one's
  // position.
  Block(ParameterLayout& params, const BlockConfig& config, int layer, int order);

  // From the forward to the backward, in the activation buffer. R = samples * T.
  struct Saved {
    LayerNorm::Saved norm1, norm2;   // (R)
    std::optional<Region> ln1, ln2;  // (R, C) outputs of the norms; none under Selective
    Attention::Saved attention;
    Region mid;  // (R, C)
    Mlp::Saved mlp;
  };
  Saved declare_saved(Layout& activations, const std::string& name, Index samples, Index T,
                      Recompute) const;

  // Scratch of one call, in the workspace.
  struct Scratch {
    Region rows, wide, delta;  // (R, C) (R, 4C) (samples, H, T)
  };
  Scratch declare_scratch(Layout& workspace, Index samples, Index T) const;

  // Output gradients of the four linear layers, (R, 3C) (R, C) (R, 4C) (R, C), from a branch's
  // input half of the backward to its weight half. They stand in the place of what is dead by then.
  struct Stash {
    Region d_qkv, d_attn, d_fc, d_mlp;
  };
  // Of a whole backward, in the workspace: d_qkv and d_fc in `wide`, d_attn and d_mlp in one.
  Stash declare_whole_stash(Layout& workspace, const Scratch&, Index rows) const;
  // Of a split backward, in the activation buffer: d_qkv in the qkv of the block above, whose input
  // half is done; unless Selective, which computes outputs again from these very tensors, d_fc in
  // fc, d_attn in mid, d_mlp in this block's output. The last block of a stage has no block above
  // and no output in the activation buffer.
  struct Above {
    Region qkv, output;
  };
  Stash declare_split_stash(Layout& activations, const Saved&, std::optional<Above>, Index rows,
                            Recompute) const;

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
  // does not look at g; at x only under Selective. A whole backward is both halves of one branch,
  // then of the other.
  enum class Part { Whole, Input, Weight };
  void backward(Pass& pass, const Memory& memory, Part part, Tensor g, Tensor x) const;

  // Generation: x (R, C) holds new rows of one sequence at positions first … (pass.activations: one
  // sample of R tokens) and becomes their output; keys and values (P, C) are this block's cache.
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
  LayerNorm ln_1_;
  Attention attention_;
  Residual attention_residual_;
  LayerNorm ln_2_;
  Mlp mlp_;
  Residual mlp_residual_;
};

}  // namespace chimera::nn
