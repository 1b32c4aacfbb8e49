#include "model_json.h"

#include <nlohmann/json.hpp>

#include "chimera/checkpoint/writer.h"

namespace chimera::checkpoint {

Json to_json(const model::ModelConfig& m) {
  return {{"n_layer", m.n_layer},
          {"n_head", m.n_head},
          {"n_embd", m.n_embd},
          {"n_positions", m.n_positions},
          {"vocab_size", m.vocab_size},
          {"tied_embeddings", m.tied_embeddings},
          {"position_encoding", m.position_encoding},
          {"embd_pdrop", m.embd_pdrop},
          {"attn_pdrop", m.attn_pdrop},
          {"resid_pdrop", m.resid_pdrop},
          {"layer_norm_epsilon", m.layer_norm_epsilon},
          {"initializer_range", m.initializer_range}};
}

model::ModelConfig parse_model(const JsonReader& in) {
  // 12 L C^2 + V C stays below 2^63 with these.
  constexpr Index kLayers = 100'000, kWidth = 1'000'000, kMany = 100'000'000;
  constexpr JsonRange kShare{0, 1, ""};
  in.only({"n_layer", "n_head", "n_embd", "n_positions", "vocab_size", "tied_embeddings",
           "position_encoding", "embd_pdrop", "attn_pdrop", "resid_pdrop", "layer_norm_epsilon",
           "initializer_range"});
  model::ModelConfig m;
  m.n_layer = in["n_layer"].count(1, kLayers);
  m.n_head = in["n_head"].count(1, kWidth);
  m.n_embd = in["n_embd"].count(1, kWidth);
  m.n_positions = in["n_positions"].count(1, kMany);
  m.vocab_size = in["vocab_size"].count(1, kMany);
  m.tied_embeddings = in["tied_embeddings"].flag();
  m.position_encoding = in["position_encoding"].text();
  m.embd_pdrop = in["embd_pdrop"].number(kShare);
  m.attn_pdrop = in["attn_pdrop"].number(kShare);
  m.resid_pdrop = in["resid_pdrop"].number(kShare);
  m.layer_norm_epsilon = in["layer_norm_epsilon"].number(kShare);
  m.initializer_range = in["initializer_range"].number({0, 1e6, ""});
  ENSURE(m.n_embd % m.n_head == 0, in.where(), ": n_embd ", m.n_embd,
         " is not divisible by n_head ", m.n_head);
  ENSURE(m.position_encoding == "learned" || m.position_encoding == "sinusoidal", in.where(),
         ": unknown position_encoding ", in_quotes(m.position_encoding));
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
