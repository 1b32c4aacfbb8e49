#include "chimera/nn/attention.h"

namespace chimera::nn {
namespace {

// (R, 3C) as (B, T, 3, C).
Tensor by_part(const Pass& pass, const Tensor& qkv) {
  return qkv.reshaped({pass.activations.samples, pass.activations.T, 3, qkv.dim(1) / 3});
}

}  // namespace

Attention::Attention(ParameterLayout& params, const std::string& prefix,
                     const AttentionConfig& config, int layer, int order)
    : config_(config),
      c_attn_(params, prefix + ".c_attn", config.C, 3 * config.C, order, layer + 1,
              config.deviation),
      c_proj_(params, prefix + ".c_proj", config.C, config.C, order + Linear::kParameters,
              layer + 1, config.output_deviation),
      dropout_(config.pdrop, layer, DropoutSite::Attention) {}

Attention::Saved Attention::declare_saved(Layout& activations, const std::string& name,
                                          Index samples, Index T) const {
  const Index R = samples * T, C = config_.C;
  return {.qkv = activations.add(name + ".qkv", config_.type, {R, 3 * C}),
          .heads = activations.add(name + ".heads", config_.type, {R, C}),
          .lse = activations.add(name + ".lse", DType::F32, {samples, config_.H, T})};
}

Region Attention::declare_delta(Layout& workspace, Index samples, Index T) const {
  return workspace.add("delta", DType::F32, {samples, config_.H, T});
}

void Attention::forward(Pass& pass, const Saved& saved, Tensor y, Tensor x) const {
  const Tensor qkv = pass.activations.rows(saved.qkv), heads = pass.activations.rows(saved.heads);
  c_attn_.forward(pass, qkv, x);
  pass.ops.attention_forward(pass.activations.by_sample(heads),
                             pass.activations.per_sample(saved.lse), by_part(pass, qkv), config_.H,
                             dropout_.mask(pass));
  c_proj_.forward(pass, y, heads);
}

void Attention::backward_input(Pass& pass, const Saved& saved, Tensor dx, Tensor d_qkv,
                               const Region& delta, Tensor dy) const {
  const BufferView& activations = pass.activations;
  c_proj_.backward_input(pass, dx, dy);
  pass.ops.attention_backward(
      by_part(pass, d_qkv), pass.scratch().per_sample(delta), pass.activations.by_sample(dx),
      pass.activations.by_sample(activations.rows(saved.heads)), activations.per_sample(saved.lse),
      by_part(pass, activations.rows(saved.qkv)), config_.H, dropout_.mask(pass));
  c_attn_.backward_input(pass, dx, d_qkv);
}

void Attention::backward_weight(Pass& pass, const Saved& saved, Tensor d_qkv, Tensor dy,
                                Tensor x) const {
  c_proj_.backward_weight(pass, dy, pass.activations.rows(saved.heads));
  c_attn_.backward_weight(pass, d_qkv, x);
}

void Attention::decode(Pass& pass, Tensor y, Tensor qkv, Tensor keys, Tensor values, Tensor x,
                       Index first) const {
  c_attn_.forward(pass, qkv, x);
  pass.ops.attention_cached(x, keys, values, qkv.reshaped({x.dim(0), 3, config_.C}), first,
                            config_.H);
  c_proj_.forward(pass, y, x);
}

}  // namespace chimera::nn
