#include "chimera/nn/block.h"

namespace chimera::nn {
namespace {
std::string prefix_of(int layer) { return "transformer.h." + std::to_string(layer) + "."; }
}  // namespace

Block::Block(ParameterLayout& params, const BlockConfig& config, int layer, int order)
    : config_(config),
      layer_(layer),
      ln_1_(params, prefix_of(layer) + "ln_1", config.C, order, layer + 1, config.epsilon),
      c_attn_(params, prefix_of(layer) + "attn.c_attn", config.C, 3 * config.C, order + 2,
              layer + 1, config.deviation),
      attn_c_proj_(params, prefix_of(layer) + "attn.c_proj", config.C, config.C, order + 4,
                   layer + 1, config.residual_deviation),
      ln_2_(params, prefix_of(layer) + "ln_2", config.C, order + 6, layer + 1, config.epsilon),
      c_fc_(params, prefix_of(layer) + "mlp.c_fc", config.C, 4 * config.C, order + 8, layer + 1,
            config.deviation),
      mlp_c_proj_(params, prefix_of(layer) + "mlp.c_proj", 4 * config.C, config.C, order + 10,
                  layer + 1, config.residual_deviation) {}

Block::Saved Block::declare_saved(Layout& slot, const std::string& name, const BlockConfig& config,
                                  Index samples, Index T) {
  const Index R = samples * T, C = config.C;
  const auto rows = [&](const char* what, Index width) {
    return slot.add(name + "." + what, DType::F32, {R, width});
  };
  return {.ln1 = rows("ln1", C),
          .qkv = rows("qkv", 3 * C),
          .heads = rows("heads", C),
          .mid = rows("mid", C),
          .ln2 = rows("ln2", C),
          .fc = rows("fc", 4 * C),
          .gelu = rows("gelu", 4 * C),
          .y = rows("y", C),
          .norm1 = LayerNorm::declare(slot, name + ".norm1", R),
          .norm2 = LayerNorm::declare(slot, name + ".norm2", R),
          .lse = slot.add(name + ".lse", DType::F32, {samples, config.H, T})};
}

Block::Stash Block::declare_stash(Layout& layout, const BlockConfig& config, Index rows) {
  return {.d_qkv = layout.add("d_qkv", DType::F32, {rows, 3 * config.C}),
          .d_attn = layout.add("d_attn", DType::F32, {rows, config.C}),
          .d_fc = layout.add("d_fc", DType::F32, {rows, 4 * config.C}),
          .d_mlp = layout.add("d_mlp", DType::F32, {rows, config.C})};
}

Block::Scratch Block::declare_scratch(Layout& workspace, const BlockConfig& config, Index samples,
                                      Index T) {
  return {.rows = workspace.add("d_rows", DType::F32, {samples * T, config.C}),
          .delta = workspace.add("delta", DType::F32, {samples, config.H, T})};
}

void Block::forward(Pass& pass, const Saved& saved, Tensor x) const {
  const SlotView& s = pass.slot;
  const Index B = s.samples, T = s.T, C = config_.C;
  const Tensor mid = s.rows(saved.mid).reshaped({B, T, C}), y = s.rows(saved.y).reshaped({B, T, C});
  // The branch is written where the sum will stand: residual_forward may work in place.
  ln_1_.forward(pass, s.rows(saved.ln1), x, s.rows(saved.norm1.mean), s.rows(saved.norm1.rstd));
  c_attn_.forward(pass, s.rows(saved.qkv), s.rows(saved.ln1));
  pass.ops.attention_forward(s.rows(saved.heads).reshaped({B, T, C}), s.per_sample(saved.lse),
                             s.rows(saved.qkv).reshaped({B, T, 3, C}), config_.H,
                             pass.dropout(config_.attn_pdrop, layer_, DropoutSite::Attention));
  attn_c_proj_.forward(pass, s.rows(saved.mid), s.rows(saved.heads));
  pass.ops.residual_forward(
      mid, x.reshaped({B, T, C}), mid,
      pass.dropout(config_.resid_pdrop, layer_, DropoutSite::AttentionResidual));
  ln_2_.forward(pass, s.rows(saved.ln2), s.rows(saved.mid), s.rows(saved.norm2.mean),
                s.rows(saved.norm2.rstd));
  c_fc_.forward(pass, s.rows(saved.fc), s.rows(saved.ln2));
  pass.ops.gelu_forward(s.rows(saved.gelu), s.rows(saved.fc));
  mlp_c_proj_.forward(pass, s.rows(saved.y), s.rows(saved.gelu));
  pass.ops.residual_forward(y, mid, y,
                            pass.dropout(config_.resid_pdrop, layer_, DropoutSite::MlpResidual));
}

void Block::backward_input(Pass& pass, const Saved& saved, const Stash& stash,
                           const SlotView& stash_memory, const Scratch& scratch, Tensor g,
                           Tensor x) const {
  const SlotView& s = pass.slot;
  const Index B = s.samples, T = s.T, C = config_.C;
  const Tensor d_mlp = stash_memory.rows(stash.d_mlp), d_fc = stash_memory.rows(stash.d_fc),
               d_attn = stash_memory.rows(stash.d_attn), d_qkv = stash_memory.rows(stash.d_qkv);
  const Tensor d_rows = pass.workspace.at(scratch.rows).rows(0, B * T);
  const Tensor g3 = g.reshaped({B, T, C});

  pass.ops.residual_backward(d_mlp.reshaped({B, T, C}), g3,
                             pass.dropout(config_.resid_pdrop, layer_, DropoutSite::MlpResidual));
  mlp_c_proj_.backward_input(pass, d_fc, d_mlp);
  pass.ops.gelu_backward(d_fc, d_fc, s.rows(saved.fc));
  c_fc_.backward_input(pass, d_rows, d_fc);
  ln_2_.backward(pass, g, d_rows, s.rows(saved.mid), s.rows(saved.norm2.mean),
                 s.rows(saved.norm2.rstd), Write::Add);

  pass.ops.residual_backward(
      d_attn.reshaped({B, T, C}), g3,
      pass.dropout(config_.resid_pdrop, layer_, DropoutSite::AttentionResidual));
  attn_c_proj_.backward_input(pass, d_rows, d_attn);
  pass.ops.attention_backward(
      d_qkv.reshaped({B, T, 3, C}), pass.workspace.at(scratch.delta).rows(0, B),
      d_rows.reshaped({B, T, C}), s.rows(saved.heads).reshaped({B, T, C}), s.per_sample(saved.lse),
      s.rows(saved.qkv).reshaped({B, T, 3, C}), config_.H,
      pass.dropout(config_.attn_pdrop, layer_, DropoutSite::Attention));
  c_attn_.backward_input(pass, d_rows, d_qkv);
  ln_1_.backward(pass, g, d_rows, x, s.rows(saved.norm1.mean), s.rows(saved.norm1.rstd),
                 Write::Add);
}

void Block::backward_weight(Pass& pass, const Saved& saved, const Stash& stash,
                            const SlotView& stash_memory) const {
  const SlotView& s = pass.slot;
  mlp_c_proj_.backward_weight(pass, stash_memory.rows(stash.d_mlp), s.rows(saved.gelu));
  c_fc_.backward_weight(pass, stash_memory.rows(stash.d_fc), s.rows(saved.ln2));
  attn_c_proj_.backward_weight(pass, stash_memory.rows(stash.d_attn), s.rows(saved.heads));
  c_attn_.backward_weight(pass, stash_memory.rows(stash.d_qkv), s.rows(saved.ln1));
}

Block::DecodeScratch Block::declare_decode(Layout& w, const BlockConfig& config, Index rows) {
  const Index C = config.C;
  return {.norm = w.add("norm", DType::F32, {rows, C}),
          .mean = w.add("mean", DType::F32, {rows}),
          .rstd = w.add("rstd", DType::F32, {rows}),
          .qkv = w.add("qkv", DType::F32, {rows, 3 * C}),
          .branch = w.add("branch", DType::F32, {rows, C}),
          .fc = w.add("fc", DType::F32, {rows, 4 * C})};
}

void Block::decode(Pass& pass, const DecodeScratch& scratch, Tensor x, Tensor keys, Tensor values,
                   Index first) const {
  const Index R = x.dim(0), C = config_.C;
  const auto view = [&](const Region& r) { return pass.workspace.at(r).rows(0, R); };
  const Tensor norm = view(scratch.norm), mean = view(scratch.mean), rstd = view(scratch.rstd),
               qkv = view(scratch.qkv), branch = view(scratch.branch), fc = view(scratch.fc);
  const Tensor x3 = x.reshaped({1, R, C}), branch3 = branch.reshaped({1, R, C});
  ln_1_.forward(pass, norm, x, mean, rstd);
  c_attn_.forward(pass, qkv, norm);
  pass.ops.attention_cached(norm, keys, values, qkv.reshaped({R, 3, C}), first, config_.H);
  attn_c_proj_.forward(pass, branch, norm);
  pass.ops.residual_forward(x3, x3, branch3, {});
  ln_2_.forward(pass, norm, x, mean, rstd);
  c_fc_.forward(pass, fc, norm);
  pass.ops.gelu_forward(fc, fc);
  mlp_c_proj_.forward(pass, branch, fc);
  pass.ops.residual_forward(x3, x3, branch3, {});
}

}  // namespace chimera::nn
