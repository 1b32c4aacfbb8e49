#include "chimera/model/config.h"

#include <algorithm>

#include "parameters.h"

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
