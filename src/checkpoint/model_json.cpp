#include "model_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "chimera/checkpoint/writer.h"

namespace chimera::checkpoint {

Json to_json(const model::ModelConfig& m) {
  model::ModelConfig copy = m;
  Json object = Json::object();
  for (const model::ModelKey& key : model::model_keys(copy))
    std::visit([&](const auto* value) { object[key.name] = *value; }, key.value);
  return object;
}

namespace {

// One key's value into its member.
struct KeyReader {
  JsonReader in;
  const model::ModelKey& key;
  void operator()(Index* value) const {
    *value = in.count(static_cast<Index>(key.least), static_cast<Index>(key.most));
  }
  void operator()(double* value) const { *value = in.number({key.least, key.most, ""}); }
  void operator()(bool* value) const { *value = in.flag(); }
  void operator()(std::string* value) const {
    *value = in.text();
    ENSURE(std::ranges::count(key.choices, *value) > 0, in.where(), ": unknown ", key.name, " ",
           in_quotes(*value));
  }
};

}  // namespace

model::ModelConfig parse_model(const JsonReader& in) {
  model::ModelConfig m;
  const std::vector<model::ModelKey> keys = model::model_keys(m);
  std::vector<const char*> names;
  for (const model::ModelKey& key : keys) names.push_back(key.name.c_str());
  in.only(names);
  for (const model::ModelKey& key : keys)
    std::visit(KeyReader{in[key.name.c_str()], key}, key.value);
  ENSURE(m.n_embd % m.n_head == 0, in.where(), ": n_embd ", m.n_embd,
         " is not divisible by n_head ", m.n_head);
  return m;
}

std::string huggingface_config(const model::ModelConfig& m, Index end_of_text) {
  Json config = {{"architectures", {"GPT2LMHeadModel"}},
                 {"model_type", "gpt2"},
                 {"vocab_size", m.vocab_size},
                 {"n_positions", m.n_positions},
                 {"n_ctx", m.n_positions},
                 {"n_embd", m.n_embd},
                 {"n_layer", m.n_layer},
                 {"n_head", m.n_head},
                 {"n_inner", nullptr},
                 {"activation_function", "gelu_new"},
                 {"layer_norm_epsilon", m.layer_norm_epsilon},
                 {"initializer_range", m.initializer_range},
                 {"embd_pdrop", m.embd_pdrop},
                 {"attn_pdrop", m.attn_pdrop},
                 {"resid_pdrop", m.resid_pdrop},
                 {"tie_word_embeddings", m.tied_embeddings},
                 {"torch_dtype", "float32"}};
  // transformers' own defaults are GPT-2's 50256, which another vocabulary does not have.
  config["bos_token_id"] = config["eos_token_id"] = nullptr;
  if (end_of_text >= 0) config["bos_token_id"] = config["eos_token_id"] = end_of_text;
  return config.dump(2) + "\n";
}

}  // namespace chimera::checkpoint
