#include "chimera/data/dataset.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "chimera/base/log.h"

namespace chimera::data {
namespace {

[[noreturn]] void fail_on_id(const Shard& shard, Index token, std::uint32_t id,
                             Index vocabulary_size) {
  Fail(shard.path().string(), ": token id ", id, " at byte ", shard.offset_of(token),
       " is not below the vocabulary's size ", vocabulary_size,
       "; the shards were made with another tokenizer: set model.vocab_size to match, or prepare "
       "them again");
}

std::vector<Path> files_of(const std::vector<std::string>& patterns) {
  std::vector<Path> out;
  std::set<Path> seen;
  for (const std::string& pattern : patterns)
    for (const Path& path : expand_pattern(pattern)) {
      ENSURE(seen.insert(std::filesystem::absolute(path).lexically_normal()).second, path.string(),
             " is named twice; to see some data more often give it a weight");
      out.push_back(path);
    }
  ENSURE(!out.empty(), "no token shards are named; make some with `chimera data prepare`");
  return out;
}

}  // namespace

Dataset::Dataset(const std::vector<std::string>& patterns, Index sequence_length,
                 Index vocabulary_size)
    : T_(sequence_length), vocabulary_size_(vocabulary_size) {
  ENSURE(T_ >= 1, "a sequence length of ", T_, " tokens is asked for; it is at least 1");
  const std::vector<Path> files = files_of(patterns);
  for (const Path& path : files) {
    Shard shard(path);
    if (shard.tokens() <= T_) {
      const std::string problem =
          concat(path.string(), " has ", shard.tokens(), " tokens; one sample needs ", T_ + 1);
      ENSURE(files.size() > 1, problem, ": give more text, or a shorter data.sequence_length");
      log_warning(problem, ": it is left out");
      continue;
    }
    first_sample_.push_back(samples_);
    samples_ += (shard.tokens() - 1) / T_;
    shards_.push_back(std::move(shard));
  }
  ENSURE(samples_ > 0, "none of the ", files.size(), " shards (the first is ",
         files.front().string(), ") has the ", T_ + 1,
         " tokens of one sample: give more text, or a shorter data.sequence_length");
}

Index Dataset::tokens() const {
  Index sum = 0;
  for (const Shard& shard : shards_) sum += shard.tokens();
  return sum;
}

void Dataset::read(Index sample, std::int32_t* inputs, std::int32_t* targets) const {
  ENSURE(sample >= 0 && sample < samples_, "sample ", sample, " is asked for; the data set has ",
         samples_);
  const auto after = std::upper_bound(first_sample_.begin(), first_sample_.end(), sample);
  const std::size_t which = static_cast<std::size_t>(after - first_sample_.begin()) - 1;
  const Shard& shard = shards_[which];
  const Index begin = (sample - first_sample_[which]) * T_;
  // T ids go straight to the inputs; the targets are the same ids one place on, and one more.
  std::uint32_t last = 0;
  shard.read(begin, T_, inputs);
  shard.read(begin + T_, 1, &last);
  for (Index i = 0; i < T_; ++i) {
    const std::uint32_t id = static_cast<std::uint32_t>(inputs[i]);
    if (id >= vocabulary_size_) fail_on_id(shard, begin + i, id, vocabulary_size_);
  }
  if (last >= vocabulary_size_) fail_on_id(shard, begin + T_, last, vocabulary_size_);
  std::copy(inputs + 1, inputs + T_, targets);
  targets[T_ - 1] = static_cast<std::int32_t>(last);
}

void Dataset::check_all_ids() const {
  for (const Shard& shard : shards_) {
    if (*shard.largest_id() < vocabulary_size_) continue;
    for (Index token = 0; token < shard.tokens(); ++token) {
      std::uint32_t id = 0;
      shard.read(token, 1, &id);
      if (id >= vocabulary_size_) fail_on_id(shard, token, id, vocabulary_size_);
    }
  }
}

std::string Dataset::fingerprint() const {
  constexpr Index kBlock = 4096;
  Checksum sum;
  for (const Shard& shard : shards_) {
    const std::span<const std::byte> bytes = shard.bytes();
    const Index size = static_cast<Index>(bytes.size());
    sum.add(std::as_bytes(std::span(&size, 1)));
    for (const Index from : {Index{0}, (size - kBlock) / 2, size - kBlock}) {
      const Index begin = std::clamp(from, Index{0}, size), length = std::min(kBlock, size - begin);
      sum.add(bytes.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(length)));
    }
  }
  return sum.hex();
}

}  // namespace chimera::data
