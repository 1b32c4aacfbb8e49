#include "model_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "chimera/checkpoint/writer.h"
#include "fields.h"
#include "in_quotes.h"

namespace chimera::checkpoint {

Json to_json(const model::ModelConfig& m) {
  model::ModelConfig copy = m;
  Json object = Json::object();
  for (const model::ModelKey& key : model::model_keys(copy))
    std::visit([&](const auto* value) { object[key.name] = *value; }, key.value);
  return object;
}

model::ModelConfig parse_model(const Json& object, const std::string& where) {
  struct Reader {
    Fields& fields;
    const model::ModelKey& key;
    const std::string& where;
    void operator()(Index* value) const {
      *value = fields.count(key.name, static_cast<Index>(key.least), static_cast<Index>(key.most));
    }
    void operator()(double* value) const { *value = fields.number(key.name, key.least, key.most); }
    void operator()(bool* value) const { *value = fields.boolean(key.name); }
    void operator()(std::string* value) const {
      *value = fields.text(key.name);
      ENSURE(std::ranges::count(key.choices, *value) > 0, where, ": unknown ", key.name, " ",
             in_quotes(*value));
    }
  };
  Fields fields(object, where);
  model::ModelConfig m;
  for (const model::ModelKey& key : model::model_keys(m))
    std::visit(Reader{fields, key, where}, key.value);
  fields.done();
  ENSURE(m.n_embd % m.n_head == 0, where, ": n_embd ", m.n_embd, " is not divisible by n_head ",
         m.n_head);
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
