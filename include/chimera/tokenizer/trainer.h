#pragma once
// Training of a byte-level BPE, equal to Hugging Face's tokenizers (ByteLevelBPETokenizer 0.23):
// the same text and options give the same vocab.json and merges.txt, byte for byte.
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "chimera/tokenizer/tokenizer.h"

namespace chimera {

struct TrainOptions {
  Index vocab_size = 0;     // special tokens and the 256 bytes included
  Index min_frequency = 2;  // a pair that is rarer is not merged
  // They get the first ids, and their text in the corpus is ordinary text. Form: <…> or […] with a
  // letter or digit inside and no white space, by which a vocabulary's reader knows them.
  std::vector<std::string> special_tokens = {std::string(kEndOfText)};
};

struct TrainProgress {
  enum class Phase { Reading, Merging } phase;
  Index done, total;  // bytes read (total 0: unknown), or tokens of the vocabulary
};
using TrainCallback = std::function<void(const TrainProgress&)>;

// Counts the words of the texts that it is fed, with the calling thread's team; keeps the counted
// words and some 16 MiB of text (more only where a stretch without ASCII white space is longer).
class TokenizerTrainer {
 public:
  explicit TokenizerTrainer(TrainCallback progress = {});
  ~TokenizerTrainer();
  TokenizerTrainer(TokenizerTrainer&&) noexcept;

  // One text: no word spans two calls. Any bytes are accepted.
  void add_text(std::string_view text);
  // The same in parts that break anywhere, also within a character.
  void add_part(std::string_view part);
  void end_text();

  Index bytes() const;  // of all texts so far

  // Ends the text and learns the merges; the words stay, so it may be called again with other
  // options. Throws UsageError on options that no text could satisfy, Error where there was no
  // text. Where the text has no pair left that is frequent enough, warns and returns the smaller
  // vocabulary.
  Tokenizer finish(const TrainOptions& options);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The same over plain text files, each one text.
Tokenizer train_tokenizer(std::span<const Path> inputs, const TrainOptions& options,
                          TrainCallback progress = {});

// Throws UsageError unless the options can be met by some text.
void check_train_options(const TrainOptions& options);

}  // namespace chimera
