#include "chimera/model/config.h"

#include <algorithm>

namespace chimera::model {
namespace {

// Lines of the table: a required number of the shape; the others have defaults.
ModelKey size(const char* name, Index& value, double least, double most, const char* meaning) {
  return {name, &value, least, most, {}, meaning, /*required=*/true, /*shape=*/true};
}
ModelKey number(const char* name, double& value, double least, double most, const char* meaning) {
  return {name, &value, least, most, {}, meaning};
}

}  // namespace

// Bounds are such that 12 L C^2 + V C stays below 2^63.
std::vector<ModelKey> model_keys(ModelConfig& m) {
  return {
      size("n_layer", m.n_layer, 1, 10000, "transformer blocks"),
      size("n_head", m.n_head, 1, 10000, "attention heads; divides n_embd"),
      size("n_embd", m.n_embd, 1, 1 << 20, "channels"),
      size("n_positions", m.n_positions, 1, 1 << 24, "longest context in tokens"),
      size("vocab_size", m.vocab_size, 2, 1 << 24, "token ids; that of the tokenizer"),
      {.name = "tied_embeddings",
       .value = &m.tied_embeddings,
       .meaning = "the head is the token embedding",
       .shape = true},
      {.name = "position_encoding",
       .value = &m.position_encoding,
       .choices = {"learned", "sinusoidal"},
       .meaning = "learned, or fixed sines and cosines",
       .shape = true},
      number("embd_pdrop", m.embd_pdrop, 0, 0.99, "dropout after the embeddings"),
      number("attn_pdrop", m.attn_pdrop, 0, 0.99, "dropout of attention probabilities"),
      number("resid_pdrop", m.resid_pdrop, 0, 0.99, "dropout before each residual sum"),
      number("layer_norm_epsilon", m.layer_norm_epsilon, 1e-12, 0.1, "added to the variance"),
      number("initializer_range", m.initializer_range, 1e-6, 10,
             "standard deviation of initial matrices"),
  };
}

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

void apply_preset(ModelConfig& m, const Preset& preset) {
  m.n_layer = preset.n_layer;
  m.n_head = preset.n_head;
  m.n_embd = preset.n_embd;
  m.n_positions = preset.n_positions;
  m.vocab_size = preset.vocab_size;
  m.tied_embeddings = preset.tied_embeddings;
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
