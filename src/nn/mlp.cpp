#include "chimera/nn/mlp.h"

namespace chimera::nn {

Mlp::Mlp(ParameterLayout& params, const std::string& prefix, const MlpConfig& config, int layer,
         int order)
    : config_(config),
      c_fc_(params, prefix + ".c_fc", config.C, 4 * config.C, order, layer + 1, config.deviation),
      c_proj_(params, prefix + ".c_proj", 4 * config.C, config.C, order + Linear::kParameters,
              layer + 1, config.output_deviation) {}

Mlp::Saved Mlp::declare_saved(Layout& activations, const std::string& name, Index rows,
                              Recompute recompute) const {
  const auto wide = [&](const char* what) {
    return activations.add(name + what, config_.type, {rows, 4 * config_.C});
  };
  Saved saved{.fc = wide(".fc"), .gelu = {}};
  if (recompute != Recompute::Selective) saved.gelu = wide(".gelu");
  return saved;
}

Region Mlp::declare_wide(Layout& workspace, Index rows) const {
  return workspace.add("wide", config_.type, {rows, 4 * config_.C});
}

void Mlp::forward(Pass& pass, const Saved& saved, const Region& wide, Tensor y, Tensor x) const {
  const Tensor fc = pass.activations.rows(saved.fc), gelu = kept_or_scratch(pass, saved.gelu, wide);
  if (!y.empty() || saved.gelu)
    c_fc_.forward_gelu(pass, gelu, fc, x);
  else
    c_fc_.forward(pass, fc, x);
  if (!y.empty()) c_proj_.forward(pass, y, gelu);
}

void Mlp::backward_input(Pass& pass, const Saved& saved, const Region& wide, Tensor dx, Tensor d_fc,
                         Tensor dy) const {
  const Tensor fc = pass.activations.rows(saved.fc);
  if (d_fc.raw() == fc.raw()) {  // the fused op may not work in place
    const Tensor d_gelu = pass.scratch().rows(wide);
    c_proj_.backward_input(pass, d_gelu, dy);
    pass.ops.gelu_backward(d_fc, d_gelu, fc);
  } else {
    c_proj_.backward_input_gelu(pass, d_fc, dy, fc);
  }
  c_fc_.backward_input(pass, dx, d_fc);
}

// c_fc first: the GELU computed again may overwrite d_fc.
void Mlp::backward_weight(Pass& pass, const Saved& saved, const Region& wide, Tensor d_fc,
                          Tensor dy, Tensor x) const {
  c_fc_.backward_weight(pass, d_fc, x);
  const Tensor gelu = kept_or_scratch(pass, saved.gelu, wide);
  if (!saved.gelu) pass.ops.gelu_forward(gelu, pass.activations.rows(saved.fc));
  c_proj_.backward_weight(pass, dy, gelu);
}

void Mlp::decode(Pass& pass, Tensor y, Tensor fc, Tensor x) const {
  c_fc_.forward(pass, fc, x);
  pass.ops.gelu_forward(fc, fc);
  c_proj_.forward(pass, y, fc);
}

}  // namespace chimera::nn
