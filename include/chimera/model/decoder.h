#pragma once
// A whole GPT-2 on one device for generation: one sequence, keys and values of past positions kept.
#include <functional>
#include <optional>
#include <span>

#include "chimera/device/device.h"
#include "chimera/model/config.h"
#include "chimera/nn/block.h"
#include "chimera/nn/head.h"

namespace chimera::model {

class Decoder {
 public:
  // Holds the weights and a cache of `config.n_positions` positions.
  Decoder(const ModelConfig& config, Device& device, Ops& ops);

  // Every parameter in model order; the weights are to be filled in by the caller.
  void for_each_weight(const std::function<void(const nn::Parameter&, Tensor)>& visit);

  Index position() const { return position_; }  // tokens seen
  Index capacity() const { return config_.n_positions; }
  Index vocabulary_size() const { return config_.vocab_size; }
  void reset() { position_ = 0; }
  // Appends tokens (at least 1, within the capacity) and returns the logits (V) that follow the
  // last one; valid until the next call.
  Tensor append(std::span<const std::int32_t> tokens);

 private:
  static constexpr Index kRows = 64;  // of the prompt at a time
  void append_rows(std::span<const std::int32_t> tokens);

  ModelConfig config_;
  Device& device_;
  Ops& ops_;
  nn::ParameterLayout params_;
  nn::Embedding embedding_;
  std::vector<nn::Block> blocks_;
  std::optional<nn::Head> head_;  // declared after the blocks
  Layout workspace_layout_, cache_layout_;
  nn::Block::DecodeScratch scratch_;
  Region rows_, tokens_, logits_;
  std::vector<Region> keys_, values_;  // (P, C) per block
  Buffer weights_, workspace_, cache_;
  Index position_ = 0;
};

}  // namespace chimera::model
