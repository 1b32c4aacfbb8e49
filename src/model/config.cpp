#include "chimera/model/config.h"

#include <algorithm>

#include "chimera/model/parameters.h"

namespace chimera::model {

const std::vector<Preset>& presets() {
  // 124M to 1558M: Radford et al. 2019; gpt2-1.3b: Li and Hoefler, SC'21, table 4 (untied head).
  static const std::vector<Preset> list = {
      {"gpt2-124m", 12, 12, 768, 1024, 50257, true},
      {"gpt2-350m", 24, 16, 1024, 1024, 50257, true},
      {"gpt2-774m", 36, 20, 1280, 1024, 50257, true},
      {"gpt2-1558m", 48, 25, 1600, 1024, 50257, true},
      {"gpt2-1.3b", 64, 20, 1280, 1024, 50257, false},
  };
  return list;
}

const Preset* find_preset(const std::string& name) {
  const auto found =
      std::ranges::find_if(presets(), [&](const Preset& p) { return name == p.name; });
  return found == presets().end() ? nullptr : &*found;
}

namespace {

Index trained(const nn::ParameterLayout& params) {
  Index count = 0;
  for (const nn::Parameter& p : params.parameters)
    if (!p.frozen) count += p.region.size();
  return count;
}

Index embedding_parameters(const ModelConfig& m) {
  nn::ParameterLayout params;
  nn::Embedding(params, embedding_config(m), /*tied=*/std::nullopt);
  return trained(params);
}

Index block_parameters(const ModelConfig& m) {
  nn::ParameterLayout params;
  nn::Block(params, block_config(m), /*layer=*/0, /*order=*/0);
  return trained(params);
}

// The head's without its matrix.
Index norm_parameters(const ModelConfig& m) {
  nn::ParameterLayout params;
  nn::Head(params, head_config(m), nn::TokenMatrix{});
  return trained(params);
}

}  // namespace

Index parameter_count(const ModelConfig& m) {
  return embedding_parameters(m) + m.n_layer * block_parameters(m) + norm_parameters(m) +
         (m.tied_embeddings ? 0 : m.vocab_size * m.n_embd);
}

double flops_per_token(const ModelConfig& m, Index T, bool causal_half) {
  const double C = static_cast<double>(m.n_embd), L = static_cast<double>(m.n_layer);
  const Index multiplied =
      m.vocab_size * m.n_embd + m.n_layer * block_parameters(m) + norm_parameters(m);
  return 6 * static_cast<double>(multiplied) +
         (causal_half ? 6 : 12) * L * C * static_cast<double>(T);
}

}  // namespace chimera::model
