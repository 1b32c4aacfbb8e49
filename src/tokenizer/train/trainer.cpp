#include "chimera/tokenizer/trainer.h"

#include <algorithm>

#include "byte_chars.h"
#include "chimera/base/log.h"
#include "chimera/base/threads.h"
#include "chimera/tokenizer/scanner.h"
#include "train/merge_learner.h"
#include "train/word_counter.h"

namespace chimera {
namespace {

constexpr std::size_t kCountedPiece = std::size_t{64} << 10;  // counted by one thread at a time
constexpr std::size_t kPart = std::size_t{1} << 20;           // taken in at a time
constexpr std::size_t kPending = std::size_t{15} << 20;       // text that waits to be counted

// Each line by itself, with the newline that ends it.
void count_words(std::string_view text, bpe::WordCounter& counter) {
  while (!text.empty()) {
    const std::size_t newline = text.find('\n');
    const std::string_view line =
        text.substr(0, newline == std::string_view::npos ? text.size() : newline + 1);
    for (std::size_t begin = 0; begin < line.size();) {
      const std::size_t end = word_end(line, begin);
      counter.add(line.substr(begin, end - begin), 1);
      begin = end;
    }
    text.remove_prefix(line.size());
  }
}

}  // namespace

struct TokenizerTrainer::State {
  TrainCallback progress;
  std::string pending;                     // pieces, then the open end of a text
  std::vector<std::size_t> ends;           // of the pieces
  std::size_t looked = 0;                  // the open end has no cut before this position
  std::vector<bpe::WordCounter> counters;  // one per thread of the team
  Index bytes = 0;

  std::size_t closed() const { return ends.empty() ? 0 : ends.back(); }

  void close_at(std::size_t end) {
    if (end > closed()) ends.push_back(end);
    if (end >= kPending) flush();
  }

  // Makes pieces of the open end, as long as it is long enough and has places to cut.
  void cut() {
    while (pending.size() - closed() > kCountedPiece) {
      const std::size_t at = next_cut(pending, std::max(looked, closed() + kCountedPiece));
      looked = at;
      if (at == pending.size()) return;
      close_at(at);
    }
  }

  void flush() {
    const auto pieces = static_cast<Index>(ends.size());
    const Index team = std::min<Index>(team_size(), std::max<Index>(pieces, 1));
    if (counters.size() < static_cast<std::size_t>(team)) counters.resize(team);
    parallel_for(team, 1, [&](Index first, Index last) {
      for (Index t = first; t < last; ++t)
        for (Index i = pieces * t / team; i < pieces * (t + 1) / team; ++i) {
          const std::size_t begin = i == 0 ? 0 : ends[i - 1];
          count_words(std::string_view(pending).substr(begin, ends[i] - begin), counters[t]);
        }
    });
    pending.erase(0, closed());
    ends.clear();
    looked = 0;
    if (progress) progress({TrainProgress::Phase::Reading, bytes, 0});
  }
};

TokenizerTrainer::TokenizerTrainer(TrainCallback progress) : state_(std::make_unique<State>()) {
  state_->progress = std::move(progress);
}
TokenizerTrainer::~TokenizerTrainer() = default;
TokenizerTrainer::TokenizerTrainer(TokenizerTrainer&&) noexcept = default;

void TokenizerTrainer::add_part(std::string_view part) {
  state_->bytes += static_cast<Index>(part.size());
  while (!part.empty()) {
    const std::size_t size = std::min(part.size(), kPart);
    state_->pending += part.substr(0, size);
    part.remove_prefix(size);
    state_->cut();
  }
}

void TokenizerTrainer::end_text() {
  state_->cut();
  state_->close_at(state_->pending.size());
}

void TokenizerTrainer::add_text(std::string_view text) {
  end_text();
  add_part(text);
  end_text();
}

Index TokenizerTrainer::bytes() const { return state_->bytes; }

Tokenizer TokenizerTrainer::finish(const TrainOptions& options) {
  check_train_options(options);
  ENSURE(state_->bytes > 0, "there is no text to train a tokenizer on: all input is empty");
  end_text();
  state_->flush();
  auto& counters = state_->counters;
  for (; counters.size() > 1; counters.pop_back())
    for (const auto& [bytes, count] : counters.back().words()) counters.front().add(bytes, count);
  const auto words = counters.front().words();
  Tokenizer out(bpe::learn_merges(words, options, state_->progress));
  if (out.vocabulary_size() < options.vocab_size)
    log_warning("the vocabulary has ", out.vocabulary_size(), " tokens instead of ",
                options.vocab_size, ": in ", state_->bytes,
                " bytes of text no other pair of tokens is seen ", options.min_frequency,
                " times; use more text or a smaller vocabulary size");
  return out;
}

void check_train_options(const TrainOptions& options) {
  const Index least = 256 + static_cast<Index>(options.special_tokens.size());
  if (options.vocab_size < least || options.vocab_size > std::numeric_limits<TokenId>::max())
    FailUsage("the vocabulary size is ", options.vocab_size, "; it must be at least ", least,
              " (256 bytes and ", options.special_tokens.size(),
              " special tokens) and less than 2^31");
  if (options.min_frequency < 0)
    FailUsage("the minimum frequency is ", options.min_frequency, "; it must be 0 or more");
  auto sorted = options.special_tokens;
  std::sort(sorted.begin(), sorted.end());
  if (const auto twice = std::adjacent_find(sorted.begin(), sorted.end()); twice != sorted.end())
    FailUsage("the special token \"", *twice, "\" is given twice");
  for (const std::string& token : sorted)
    if (!bpe::has_special_form(token))
      FailUsage("\"", token,
                "\" cannot be a special token; the form is <name> or [name], with a "
                "letter or digit and without white space");
}

Tokenizer train_tokenizer(std::span<const Path> inputs, const TrainOptions& options,
                          TrainCallback progress) {
  check_train_options(options);
  if (inputs.empty()) FailUsage("there is no file to train a tokenizer on");
  TokenizerTrainer trainer(std::move(progress));
  for (const Path& path : inputs) {
    const MappedFile file(path);
    trainer.add_text({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()});
  }
  return trainer.finish(options);
}

}  // namespace chimera
