#include "chimera/model/config.h"

#include <algorithm>

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

Index parameter_count(const ModelConfig& m) {
  const Index C = m.n_embd;
  const Index block =
      12 * C * C + 13 * C;  // two norms (4C), qkv, projection, two of the MLP with biases
  const Index positions = m.position_encoding == "learned" ? m.n_positions * C : 0;
  return m.vocab_size * C * (m.tied_embeddings ? 1 : 2) + positions + m.n_layer * block + 2 * C;
}

double flops_per_token(const ModelConfig& m, Index T, bool causal_half) {
  const double C = static_cast<double>(m.n_embd), L = static_cast<double>(m.n_layer);
  const double multiplied =
      static_cast<double>(m.vocab_size) * C + L * (12 * C * C + 13 * C) + 2 * C;
  return 6 * multiplied + (causal_half ? 6 : 12) * L * C * static_cast<double>(T);
}

}  // namespace chimera::model
