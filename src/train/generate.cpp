#include "chimera/train/generate.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "chimera/base/rng.h"

namespace chimera::train {

void check_sampling(const SamplingOptions& o) {
  if (!(o.temperature >= 0 && o.temperature <= 100))
    FailUsage("--temperature is ", o.temperature, "; it must be between 0 and 100");
  if (o.top_k < 0) FailUsage("--top-k is ", o.top_k, "; it must be 0 (all) or more");
  if (!(o.top_p > 0 && o.top_p <= 1))
    FailUsage("--top-p is ", o.top_p, "; it must be above 0 and at most 1");
}

std::int32_t sample_token(std::span<const float> logits, const SamplingOptions& options,
                          Index position) {
  for (std::size_t i = 0; i < logits.size(); ++i)
    ENSURE(std::isfinite(logits[i]), "the model's logit of token ", i, " is ", logits[i],
           "; its weights are damaged or its training diverged");
  std::vector<std::int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto likelier = [&](std::int32_t a, std::int32_t b) {
    const float x = logits[static_cast<std::size_t>(a)], y = logits[static_cast<std::size_t>(b)];
    return x > y || (x == y && a < b);
  };
  if (options.temperature == 0) return *std::ranges::min_element(ids, likelier);
  std::ranges::sort(ids, likelier);
  if (options.top_k > 0 && options.top_k < static_cast<Index>(ids.size()))
    ids.resize(static_cast<std::size_t>(options.top_k));

  const double most = static_cast<double>(logits[static_cast<std::size_t>(ids.front())]);
  std::vector<double> weights;
  for (const std::int32_t id : ids)
    weights.push_back(std::exp((static_cast<double>(logits[static_cast<std::size_t>(id)]) - most) /
                               options.temperature));
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  double kept = 0;
  std::size_t n = 0;
  while (n < weights.size() && (n == 0 || kept < options.top_p * total)) kept += weights[n++];

  const PhiloxBlock bits = philox4x32(
      {static_cast<std::uint32_t>(position), static_cast<std::uint32_t>(position >> 32), 0, 0},
      philox_key(options.seed));
  double left = uniform_double(bits[0], bits[1]) * kept;
  for (std::size_t i = 0; i + 1 < n; ++i) {
    left -= weights[i];
    if (left < 0) return ids[i];
  }
  return ids[n - 1];
}

EndReason generate(model::Decoder& decoder, const Tokenizer& tokenizer, std::string_view prompt,
                   Index tokens, const SamplingOptions& options,
                   const std::function<void(std::string_view)>& sink) {
  const auto end = tokenizer.end_of_text();
  std::vector<std::int32_t> ids = tokenizer.encode(prompt, SpecialTokens::Recognize);
  if (ids.empty()) {
    ENSURE(end.has_value(),
           "the prompt is empty and the tokenizer has no <|endoftext|> to begin at; give a prompt");
    ids.push_back(*end);
  }
  ENSURE(static_cast<Index>(ids.size()) < decoder.capacity(), "the prompt has ", ids.size(),
         " tokens; the context holds ", decoder.capacity(),
         ", and at least one is generated: shorten the prompt");
  // A model may have more ids than its tokenizer, to round up its size: those are never drawn.
  const Index known = std::min(tokenizer.vocabulary_size(), decoder.vocabulary_size());
  decoder.reset();
  Tensor logits = decoder.append(ids);
  for (Index i = 0; i < tokens; ++i) {
    const std::int32_t id =
        sample_token({logits.f32(), static_cast<std::size_t>(known)}, options, decoder.position());
    if (end.has_value() && id == *end) return EndReason::EndOfText;
    sink(tokenizer.decode(std::span(&id, 1)));
    if (i + 1 == tokens) break;
    if (decoder.position() == decoder.capacity()) return EndReason::ContextFull;
    logits = decoder.append(std::span(&id, 1));
  }
  return EndReason::Length;
}

}  // namespace chimera::train
