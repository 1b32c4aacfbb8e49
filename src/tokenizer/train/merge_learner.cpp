#include "train/merge_learner.h"

#include <algorithm>
#include <queue>

#include "byte_chars.h"

namespace chimera::bpe {
namespace {

using PairId = std::uint32_t;

class Learner {
 public:
  Learner(std::span<const WordCounter::Word> words, const TrainOptions& options)
      : options_(options) {
    add_first_tokens(words);
    add_words(words);
    for (PairId p = 0; p < pairs_.size(); ++p) push(p);
  }

  Tables run(const TrainCallback& progress) {
    const Index least = std::max<Index>(options_.min_frequency, 1);
    while (tables_.tokens.size() < options_.vocab_size && !queue_.empty()) {
      const Candidate top = queue_.top();
      queue_.pop();
      Pair& pair = pairs_[top.pair];
      if (top.count != pair.queued) continue;  // an older entry of a pair that was pushed again
      pair.queued = kNotQueued;
      if (top.count != pair.count) {
        push(top.pair);
        continue;
      }
      if (top.count < least) break;
      merge(top.pair);
      if (progress && tables_.merges.size() % 128 == 0) report(progress);
    }
    if (progress) report(progress);
    tables_.finish();
    return std::move(tables_);
  }

 private:
  using Number = PairEntry<PairId>;  // pairs are numbered as they come up
  static constexpr Index kNotQueued = std::numeric_limits<Index>::min();

  struct Pair {
    TokenId left, right;
    Index count = 0;            // not touched when the pair itself is merged, as in tokenizers
    Index queued = kNotQueued;  // the count of its entry in the queue
    std::vector<std::uint32_t> words;  // where it is or was
    bool fresh = false;                // gained an occurrence in this step
  };
  struct Word {
    std::size_t begin;
    std::size_t size;
    Index count;
  };
  struct Candidate {
    Index count;
    std::uint64_t key;
    PairId pair;
    bool operator<(const Candidate& other) const {
      return count != other.count ? count < other.count : key > other.key;
    }
  };

  void add_first_tokens(std::span<const WordCounter::Word> words) {
    std::size_t symbols = 0;
    for (const auto& word : words) symbols += word.bytes.size();
    symbols_.reserve(symbols);
    const auto most = static_cast<std::size_t>(options_.vocab_size);
    ids_.reserve(std::min(most, symbols + 256 + options_.special_tokens.size()));
    for (const std::string& token : options_.special_tokens) {
      tables_.specials.push_back(tables_.tokens.size());
      tables_.tokens.add(token);
    }
    for (const unsigned char byte : bytes_by_char()) {
      tables_.byte_ids[byte] = tables_.tokens.size();
      tables_.tokens.add(std::string(1, static_cast<char>(byte)));
      ids_.add(tables_.tokens, tables_.byte_ids[byte]);
    }
  }

  void add_words(std::span<const WordCounter::Word> words) {
    ENSURE(words.size() < std::numeric_limits<std::uint32_t>::max(), "the text has ", words.size(),
           " different words; at most 2^32 can be counted");
    for (const auto& [bytes, count] : words) {
      const auto index = static_cast<std::uint32_t>(words_.size());
      words_.push_back({symbols_.size(), bytes.size(), count});
      for (const char c : bytes)
        symbols_.push_back(tables_.byte_ids[static_cast<unsigned char>(c)]);
      const TokenId* at = symbols_.data() + words_.back().begin;
      for (std::size_t i = 0; i + 1 < bytes.size(); ++i) change(at[i], at[i + 1], count, index);
    }
    for (const PairId p : fresh_) pairs_[p].fresh = false;
    fresh_.clear();
  }

  // Adds to the count of a pair; a positive `by` says that `word` has it now.
  void change(TokenId left, TokenId right, Index by, std::uint32_t word) {
    const auto next = static_cast<PairId>(pairs_.size());
    const std::uint64_t key = pair_key(left, right);
    const auto same = [&](const Number& n) { return n.key == key; };
    const PairId id = numbers_.find_or_add(Number::hash(key), same, {key, next}).value;
    if (id == next) pairs_.push_back({left, right});
    Pair& pair = pairs_[id];
    pair.count += by;
    if (by < 0) return;
    if (pair.words.empty() || pair.words.back() != word) pair.words.push_back(word);
    if (!pair.fresh) fresh_.push_back(id);
    pair.fresh = true;
  }

  void push(PairId id) {
    Pair& pair = pairs_[id];
    if (pair.count <= 0 || pair.queued == pair.count) return;
    pair.queued = pair.count;
    queue_.push({pair.count, pair_key(pair.left, pair.right), id});
  }

  void merge(PairId id) {
    const TokenId left = pairs_[id].left, right = pairs_[id].right;
    const std::string bytes =
        std::string(tables_.tokens[left]) + std::string(tables_.tokens[right]);
    TokenId merged = ids_.find(tables_.tokens, bytes);
    if (merged == WordTable::kNone) {
      merged = tables_.tokens.size();
      tables_.tokens.add(bytes);
      ids_.add(tables_.tokens, merged);
    }
    tables_.merges.push_back(
        {left, right, merged, static_cast<std::uint32_t>(tables_.merges.size())});
    const std::vector<std::uint32_t> where = std::move(pairs_[id].words);
    pairs_[id].words.clear();
    for (const std::uint32_t word : where) merge_in(word, left, right, merged);
    for (const PairId p : fresh_) {
      pairs_[p].fresh = false;
      push(p);
    }
    fresh_.clear();
  }

  // Left to right; counts follow at each merge, as seen by then.
  void merge_in(std::uint32_t index, TokenId left, TokenId right, TokenId merged) {
    Word& word = words_[index];
    TokenId* const at = symbols_.data() + word.begin;
    std::size_t out = 0;
    for (std::size_t i = 0; i < word.size;) {
      if (at[i] != left || i + 1 == word.size || at[i + 1] != right) {
        at[out++] = at[i++];
        continue;
      }
      if (out > 0) {
        change(at[out - 1], left, -word.count, index);
        change(at[out - 1], merged, word.count, index);
      }
      if (i + 2 < word.size) {
        change(right, at[i + 2], -word.count, index);
        change(merged, at[i + 2], word.count, index);
      }
      at[out++] = merged;
      i += 2;
    }
    word.size = out;
  }

  void report(const TrainCallback& progress) const {
    progress({TrainProgress::Phase::Merging, tables_.tokens.size(), options_.vocab_size});
  }

  const TrainOptions& options_;
  Tables tables_;
  WordTable ids_;
  std::vector<TokenId> symbols_;  // of all words, one after the other
  std::vector<Word> words_;
  FlatTable<Number> numbers_;
  std::vector<Pair> pairs_;
  std::vector<PairId> fresh_;
  std::priority_queue<Candidate> queue_;
};

}  // namespace

Tables learn_merges(std::span<const WordCounter::Word> words, const TrainOptions& options,
                    const TrainCallback& progress) {
  return Learner(words, options).run(progress);
}

}  // namespace chimera::bpe
