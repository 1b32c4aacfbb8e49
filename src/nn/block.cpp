#include "chimera/nn/block.h"

namespace chimera::nn {
namespace {

std::string prefix_of(int layer) { return "transformer.h." + std::to_string(layer) + "."; }

// Where an output stands that selective recomputation does not keep.
Tensor kept_or(const Pass& pass, const std::optional<Region>& kept, const Region& scratch) {
  return kept ? pass.activations.rows(*kept) : pass.scratch().rows(scratch);
}

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

Block::Saved Block::declare_saved(Layout& activations, const std::string& name,
                                  const BlockConfig& config, Index samples, Index T,
                                  Recompute recompute) {
  const Index R = samples * T, C = config.C;
  const auto rows = [&](const char* what, Index width) {
    return activations.add(name + "." + what, config.type, {R, width});
  };
  Saved saved{.qkv = rows("qkv", 3 * C),
              .heads = rows("heads", C),
              .mid = rows("mid", C),
              .fc = rows("fc", 4 * C),
              .ln1 = {},
              .ln2 = {},
              .gelu = {},
              .norm1 = LayerNorm::declare(activations, name + ".norm1", R),
              .norm2 = LayerNorm::declare(activations, name + ".norm2", R),
              .lse = activations.add(name + ".lse", DType::F32, {samples, config.H, T})};
  if (recompute == Recompute::Selective) return saved;
  saved.ln1 = rows("ln1", C);
  saved.ln2 = rows("ln2", C);
  saved.gelu = rows("gelu", 4 * C);
  return saved;
}

Block::Scratch Block::declare_scratch(Layout& workspace, const BlockConfig& config, Index samples,
                                      Index T) {
  const Index R = samples * T;
  return {.rows = workspace.add("rows", config.type, {R, config.C}),
          .wide = workspace.add("wide", config.type, {R, 4 * config.C}),
          .delta = workspace.add("delta", DType::F32, {samples, config.H, T})};
}

Block::Stash Block::declare_whole_stash(Layout& workspace, const BlockConfig& config,
                                        const Scratch& scratch, Index rows) {
  const Region branch = workspace.add("d_branch", config.type, {rows, config.C});
  Region d_qkv = scratch.wide;
  d_qkv.shape[1] = 3 * config.C;
  return {.d_qkv = d_qkv, .d_attn = branch, .d_fc = scratch.wide, .d_mlp = branch};
}

void Block::forward(Pass& pass, const Memory& m, Tensor x, Tensor y) const {
  const BufferView& s = pass.activations;
  const Index B = s.samples, T = s.T, C = config_.C;
  const Saved& saved = m.saved;
  const Tensor qkv = s.rows(saved.qkv), heads = s.rows(saved.heads), fc = s.rows(saved.fc);
  const Tensor mid = s.rows(saved.mid), mid3 = mid.reshaped({B, T, C});
  const Tensor ln1 = kept_or(pass, saved.ln1, m.scratch.rows),
               ln2 = kept_or(pass, saved.ln2, m.scratch.rows),
               gelu = kept_or(pass, saved.gelu, m.scratch.wide);
  ln_1_.forward(pass, ln1, x, s.rows(saved.norm1.mean), s.rows(saved.norm1.rstd));
  c_attn_.forward(pass, qkv, ln1);
  pass.ops.attention_forward(heads.reshaped({B, T, C}), s.per_sample(saved.lse),
                             qkv.reshaped({B, T, 3, C}), config_.H,
                             pass.dropout(config_.attn_pdrop, layer_, DropoutSite::Attention));
  // A branch is written where the sum will stand.
  attn_c_proj_.forward(pass, mid, heads);
  ln_2_.forward_sum(pass, ln2, mid3, x.reshaped({B, T, C}), mid3, s.rows(saved.norm2.mean),
                    s.rows(saved.norm2.rstd),
                    pass.dropout(config_.resid_pdrop, layer_, DropoutSite::AttentionResidual));
  if (!y.empty() || saved.gelu)
    c_fc_.forward_gelu(pass, gelu, fc, ln2);
  else
    c_fc_.forward(pass, fc, ln2);
  if (y.empty()) return;
  mlp_c_proj_.forward(pass, y, gelu);
  const Tensor y3 = y.reshaped({B, T, C});
  pass.ops.residual_forward(y3, mid3, y3,
                            pass.dropout(config_.resid_pdrop, layer_, DropoutSite::MlpResidual));
}

void Block::backward(Pass& pass, const Memory& memory, Part part, Tensor g, Tensor x) const {
  backward_mlp(pass, memory, part, g);
  backward_attention(pass, memory, part, g, x);
}

// The order of both lets memory be shared as Stash says: a weight gradient comes before anything
// that may stand in its operands' place, and an output made again is written where the next
// gradient, or the last one, has its place.
void Block::backward_mlp(Pass& pass, const Memory& m, Part part, Tensor g) const {
  const bool input = part != Part::Weight, weight = part != Part::Input;
  const BufferView& s = pass.activations;
  const BufferView work = pass.scratch();
  const BufferView& stash = part == Part::Whole ? work : s;
  const Index B = s.samples, T = s.T, C = config_.C;
  const Tensor d_mlp = stash.rows(m.stash.d_mlp), d_fc = stash.rows(m.stash.d_fc);
  const Tensor rows = work.rows(m.scratch.rows), wide = work.rows(m.scratch.wide);
  const Tensor mid = s.rows(m.saved.mid), fc = s.rows(m.saved.fc);
  const Tensor mean = s.rows(m.saved.norm2.mean), rstd = s.rows(m.saved.norm2.rstd);
  if (input)
    pass.ops.residual_backward(d_mlp.reshaped({B, T, C}), g.reshaped({B, T, C}),
                               pass.dropout(config_.resid_pdrop, layer_, DropoutSite::MlpResidual));
  if (weight) {
    const Tensor gelu = kept_or(pass, m.saved.gelu, m.scratch.wide);
    if (!m.saved.gelu) pass.ops.gelu_forward(gelu, fc);
    mlp_c_proj_.backward_weight(pass, d_mlp, gelu);
  }
  if (input) {
    if (d_fc.raw() == fc.raw()) {  // a split backward's stash
      mlp_c_proj_.backward_input(pass, wide, d_mlp);
      pass.ops.gelu_backward(d_fc, wide, fc);
    } else {
      mlp_c_proj_.backward_input_gelu(pass, d_fc, d_mlp, fc);
    }
    c_fc_.backward_input(pass, rows, d_fc);
    ln_2_.backward(pass, g, rows, mid, mean, rstd, Write::Add);
  }
  if (weight) {
    const Tensor ln2 = kept_or(pass, m.saved.ln2, m.scratch.rows);
    if (!m.saved.ln2) ln_2_.forward(pass, ln2, mid, mean, rstd);
    c_fc_.backward_weight(pass, d_fc, ln2);
  }
}

void Block::backward_attention(Pass& pass, const Memory& m, Part part, Tensor g, Tensor x) const {
  const bool input = part != Part::Weight, weight = part != Part::Input;
  const BufferView& s = pass.activations;
  const BufferView work = pass.scratch();
  const BufferView& stash = part == Part::Whole ? work : s;
  const Index B = s.samples, T = s.T, C = config_.C;
  const Tensor d_attn = stash.rows(m.stash.d_attn), d_qkv = stash.rows(m.stash.d_qkv);
  const Tensor rows = work.rows(m.scratch.rows), heads = s.rows(m.saved.heads);
  const Tensor mean = s.rows(m.saved.norm1.mean), rstd = s.rows(m.saved.norm1.rstd);
  if (input)
    pass.ops.residual_backward(
        d_attn.reshaped({B, T, C}), g.reshaped({B, T, C}),
        pass.dropout(config_.resid_pdrop, layer_, DropoutSite::AttentionResidual));
  if (weight) attn_c_proj_.backward_weight(pass, d_attn, heads);
  if (input) {
    attn_c_proj_.backward_input(pass, rows, d_attn);
    pass.ops.attention_backward(d_qkv.reshaped({B, T, 3, C}), work.per_sample(m.scratch.delta),
                                rows.reshaped({B, T, C}), heads.reshaped({B, T, C}),
                                s.per_sample(m.saved.lse),
                                s.rows(m.saved.qkv).reshaped({B, T, 3, C}), config_.H,
                                pass.dropout(config_.attn_pdrop, layer_, DropoutSite::Attention));
    c_attn_.backward_input(pass, rows, d_qkv);
    ln_1_.backward(pass, g, rows, x, mean, rstd, Write::Add);
  }
  if (weight) {
    const Tensor ln1 = kept_or(pass, m.saved.ln1, m.scratch.rows);
    if (!m.saved.ln1) ln_1_.forward(pass, ln1, x, mean, rstd);
    c_attn_.backward_weight(pass, d_qkv, ln1);
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
