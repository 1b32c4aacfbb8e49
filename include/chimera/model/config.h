#pragma once
// The shape of a GPT-2. Names follow Hugging Face's configuration.
#include <string>
#include <variant>
#include <vector>

#include "chimera/base/types.h"

namespace chimera::model {

struct ModelConfig {
  Index n_layer = 0, n_head = 0, n_embd = 0, n_positions = 0, vocab_size = 0;
  bool tied_embeddings = true;
  std::string position_encoding = "learned";  // or "sinusoidal"
  double embd_pdrop = 0.1, attn_pdrop = 0.1, resid_pdrop = 0.1;
  double layer_norm_epsilon = 1e-5, initializer_range = 0.02;
};

// One key of ModelConfig: where its value goes, what is accepted, what it means. Configurations and
// checkpoints are read, written and compared by this table; a new key is a member and a line of it.
struct ModelKey {
  std::string name;
  std::variant<Index*, double*, bool*, std::string*> value;
  double least = 0, most = 0;        // numbers
  std::vector<std::string> choices;  // text
  std::string meaning;
  bool required = false;  // has no default of use
  bool shape = false;     // a checkpoint is of one value: a run with another one cannot resume it
};
std::vector<ModelKey> model_keys(ModelConfig& config);

// The published shapes by name (gpt2-124m, gpt2-350m, gpt2-774m, gpt2-1558m, gpt2-1.3b: the
// paper's).
struct Preset {
  const char* name;
  Index n_layer, n_head, n_embd, n_positions, vocab_size;
  bool tied_embeddings;
};
const std::vector<Preset>& presets();
const Preset* find_preset(const std::string& name);
void apply_preset(ModelConfig& config, const Preset& preset);

// Parameters of the whole model, each once; FLOPs of one training step per token are 6 per
// parameter that is multiplied (all but position embeddings and, untied, the token embeddings) plus
// attention: "full" 12 L C T, "half" 6 L C T (the causal triangle alone).
Index parameter_count(const ModelConfig& config);
double flops_per_token(const ModelConfig& config, Index T, bool causal_half);

}  // namespace chimera::model
