#include "chimera/nn/block.h"

namespace chimera::nn {
namespace {

std::string prefix_of(int layer) { return "transformer.h." + std::to_string(layer) + "."; }

}  // namespace

Block::Block(ParameterLayout& params, const BlockConfig& c, int layer, int order)
    : config_(c),
      ln_1_(params, prefix_of(layer) + "ln_1", c.C, order, layer + 1, c.epsilon),
      attention_(params, prefix_of(layer) + "attn",
                 {c.C, c.H, c.attn_pdrop, c.deviation, c.residual_deviation, c.type}, layer,
                 order += LayerNorm::kParameters),
      attention_residual_({c.resid_pdrop, layer, DropoutSite::AttentionResidual}),
      ln_2_(params, prefix_of(layer) + "ln_2", c.C, order += Attention::kParameters, layer + 1,
            c.epsilon),
      mlp_(params, prefix_of(layer) + "mlp", {c.C, c.deviation, c.residual_deviation, c.type},
           layer, order += LayerNorm::kParameters),
      mlp_residual_({c.resid_pdrop, layer, DropoutSite::MlpResidual}) {}

Block::Saved Block::declare_saved(Layout& activations, const std::string& name, Index samples,
                                  Index T, Recompute recompute) const {
  const Index R = samples * T;
  const auto rows = [&](const char* what) {
    return activations.add(name + what, config_.type, {R, config_.C});
  };
  Saved saved{.norm1 = LayerNorm::declare(activations, name + ".norm1", R),
              .norm2 = LayerNorm::declare(activations, name + ".norm2", R),
              .ln1 = {},
              .ln2 = {},
              .attention = attention_.declare_saved(activations, name, samples, T),
              .mid = rows(".mid"),
              .mlp = mlp_.declare_saved(activations, name, R, recompute)};
  if (recompute == Recompute::Selective) return saved;
  saved.ln1 = rows(".ln1");
  saved.ln2 = rows(".ln2");
  return saved;
}

Block::Scratch Block::declare_scratch(Layout& workspace, Index samples, Index T) const {
  const Index R = samples * T;
  return {.rows = workspace.add("rows", config_.type, {R, config_.C}),
          .wide = mlp_.declare_wide(workspace, R),
          .delta = attention_.declare_delta(workspace, samples, T)};
}

Block::Stash Block::declare_whole_stash(Layout& workspace, const Scratch& scratch,
                                        Index rows) const {
  const Region branch = workspace.add("d_branch", config_.type, {rows, config_.C});
  Region d_qkv = scratch.wide;
  d_qkv.shape[1] = 3 * config_.C;
  return {.d_qkv = d_qkv, .d_attn = branch, .d_fc = scratch.wide, .d_mlp = branch};
}

Block::Stash Block::declare_split_stash(Layout& activations, const Saved& saved,
                                        std::optional<Above> above, Index rows,
                                        Recompute recompute) const {
  const Index C = config_.C;
  const auto own = [&](const char* name, Index width) {
    return activations.add(name, config_.type, {rows, width});
  };
  const bool reuse = recompute != Recompute::Selective;
  return {.d_qkv = above ? above->qkv : own("d_qkv", 3 * C),
          .d_attn = reuse ? saved.mid : own("d_attn", C),
          .d_fc = reuse ? saved.mlp.fc : own("d_fc", 4 * C),
          .d_mlp = reuse && above ? above->output : own("d_mlp", C)};
}

void Block::forward(Pass& pass, const Memory& m, Tensor x, Tensor y) const {
  const BufferView& s = pass.activations;
  const Tensor ln1 = kept_or_scratch(pass, m.saved.ln1, m.scratch.rows),
               ln2 = kept_or_scratch(pass, m.saved.ln2, m.scratch.rows);
  const Tensor mid = s.rows(m.saved.mid);
  ln_1_.forward(pass, ln1, x, s.rows(m.saved.norm1.mean), s.rows(m.saved.norm1.rstd));
  // A branch is written where the sum will stand.
  attention_.forward(pass, m.saved.attention, mid, ln1);
  attention_residual_.forward_norm(pass, ln_2_, ln2, s.rows(m.saved.norm2.mean),
                                   s.rows(m.saved.norm2.rstd), mid, x, mid);
  mlp_.forward(pass, m.saved.mlp, m.scratch.wide, y, ln2);
  if (!y.empty()) mlp_residual_.forward(pass, y, mid, y);
}

void Block::backward(Pass& pass, const Memory& memory, Part part, Tensor g, Tensor x) const {
  backward_mlp(pass, memory, part, g);
  backward_attention(pass, memory, part, g, x);
}

// In both, `rows` holds the gradient of the norm's output, then the output itself, where it is
// computed again for the weights behind it.
void Block::backward_mlp(Pass& pass, const Memory& m, Part part, Tensor g) const {
  const BufferView& s = pass.activations;
  const BufferView stash = part == Part::Whole ? pass.scratch() : s;
  const Tensor d_mlp = stash.rows(m.stash.d_mlp), d_fc = stash.rows(m.stash.d_fc);
  const Tensor mean = s.rows(m.saved.norm2.mean), rstd = s.rows(m.saved.norm2.rstd);
  const Tensor mid = s.rows(m.saved.mid);
  if (part != Part::Weight) {
    const Tensor d_norm = pass.scratch().rows(m.scratch.rows);
    mlp_residual_.backward(pass, d_mlp, g);
    mlp_.backward_input(pass, m.saved.mlp, m.scratch.wide, d_norm, d_fc, d_mlp);
    ln_2_.backward(pass, g, d_norm, mid, mean, rstd, Write::Add);
  }
  if (part != Part::Input) {
    const Tensor ln2 = kept_or_scratch(pass, m.saved.ln2, m.scratch.rows);
    if (!m.saved.ln2) ln_2_.forward(pass, ln2, mid, mean, rstd);
    mlp_.backward_weight(pass, m.saved.mlp, m.scratch.wide, d_fc, d_mlp, ln2);
  }
}

void Block::backward_attention(Pass& pass, const Memory& m, Part part, Tensor g, Tensor x) const {
  const BufferView& s = pass.activations;
  const BufferView stash = part == Part::Whole ? pass.scratch() : s;
  const Tensor d_attn = stash.rows(m.stash.d_attn), d_qkv = stash.rows(m.stash.d_qkv);
  const Tensor mean = s.rows(m.saved.norm1.mean), rstd = s.rows(m.saved.norm1.rstd);
  if (part != Part::Weight) {
    const Tensor d_norm = pass.scratch().rows(m.scratch.rows);
    attention_residual_.backward(pass, d_attn, g);
    attention_.backward_input(pass, m.saved.attention, d_norm, d_qkv, m.scratch.delta, d_attn);
    ln_1_.backward(pass, g, d_norm, x, mean, rstd, Write::Add);
  }
  if (part != Part::Input) {
    const Tensor ln1 = kept_or_scratch(pass, m.saved.ln1, m.scratch.rows);
    if (!m.saved.ln1) ln_1_.forward(pass, ln1, x, mean, rstd);
    attention_.backward_weight(pass, m.saved.attention, d_qkv, d_attn, ln1);
  }
}

Block::DecodeScratch Block::declare_decode(Layout& w, const BlockConfig& config, Index rows) {
  const Index C = config.C;
  return {.norm = w.add("norm", config.type, {rows, C}),
          .mean = w.add("mean", DType::F32, {rows}),
          .rstd = w.add("rstd", DType::F32, {rows}),
          .qkv = w.add("qkv", config.type, {rows, 3 * C}),
          .branch = w.add("branch", config.type, {rows, C}),
          .fc = w.add("fc", config.type, {rows, 4 * C})};
}

void Block::decode(Pass& pass, const DecodeScratch& scratch, Tensor x, Tensor keys, Tensor values,
                   Index first) const {
  const BufferView work = pass.scratch();
  const Tensor norm = work.rows(scratch.norm), branch = work.rows(scratch.branch);
  const Tensor mean = work.rows(scratch.mean), rstd = work.rows(scratch.rstd);
  ln_1_.forward(pass, norm, x, mean, rstd);
  attention_.decode(pass, branch, work.rows(scratch.qkv), keys, values, norm, first);
  attention_residual_.forward(pass, x, x, branch);
  ln_2_.forward(pass, norm, x, mean, rstd);
  mlp_.decode(pass, branch, work.rows(scratch.fc), norm);
  mlp_residual_.forward(pass, x, x, branch);
}

}  // namespace chimera::nn
