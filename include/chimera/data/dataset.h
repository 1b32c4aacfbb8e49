#pragma once
// Token shards as samples of T inputs and T targets. Sample i of a shard is its tokens
// [i * T, i * T + T], T + 1 of them: inputs all but the last, targets all but the first. So samples
// share one token with their neighbour, every token but a shard's first is predicted at most once,
// and a shard of n tokens has (n - 1) / T samples. Samples never cross shards.
#include <cstdint>
#include <string>
#include <vector>

#include "chimera/data/shard.h"

namespace chimera::data {

class Dataset {
 public:
  // `patterns` name shards, in the order that numbers the samples; a pattern's files come sorted.
  // Throws on a bad shard, on a file named twice, and when no shard has T + 1 tokens (shards too
  // short among longer ones are left out with a warning). Ids must be below vocabulary_size.
  Dataset(const std::vector<std::string>& patterns, Index sequence_length, Index vocabulary_size);

  Index samples() const { return samples_; }
  Index sequence_length() const { return T_; }
  Index tokens() const;
  const std::vector<Shard>& shards() const { return shards_; }

  // inputs, targets: (T). Throws with file and byte on an id outside the vocabulary. Thread-safe.
  void read(Index sample, std::int32_t* inputs, std::int32_t* targets) const;
  // Scans every token of every shard for ids outside the vocabulary.
  void check_all_ids() const;
  // Tells data sets apart without reading them: a checksum over each shard's size, header and 4 KiB
  // at its beginning, middle and end. Independent of the files' names and of T; changes elsewhere
  // in a shard go unseen (`chimera data info --verify` reads everything).
  std::string fingerprint() const;

 private:
  Index T_, vocabulary_size_, samples_ = 0;
  std::vector<Shard> shards_;
  std::vector<Index> first_sample_;  // of each shard
};

}  // namespace chimera::data
