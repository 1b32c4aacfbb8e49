#pragma once
// Text from a trained model: one process, whatever layout trained it.
#include <functional>
#include <string>
#include <string_view>

#include "chimera/model/decoder.h"
#include "chimera/tokenizer/tokenizer.h"

namespace chimera::train {

struct SamplingOptions {
  double temperature = 0.8;  // 0: always the likeliest
  Index top_k = 0;           // only the k likeliest; 0: all
  double top_p = 1.0;        // the fewest likeliest whose probabilities reach p
  std::uint64_t seed = 1;
};
// Refuses values out of range, naming the option.
void check_sampling(const SamplingOptions& options);

// A token drawn from logits (V): a function of logits, options and `position` alone.
std::int32_t sample_token(std::span<const float> logits, const SamplingOptions& options,
                          Index position);

enum class EndReason { Length, EndOfText, ContextFull };

// Continues `prompt` by up to `tokens` tokens; each token's bytes go to `sink` as they come. Throws
// when the prompt fills the context. An empty prompt begins at end-of-text.
EndReason generate(model::Decoder& decoder, const Tokenizer& tokenizer, std::string_view prompt,
                   Index tokens, const SamplingOptions& options,
                   const std::function<void(std::string_view)>& sink);

}  // namespace chimera::train
