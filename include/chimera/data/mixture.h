#pragma once
// Which sample comes when: a function of its number in the training, so nothing is stored, resuming
// is free, and batch size, layout and number of workers cannot matter.
#include <cstdint>
#include <vector>

#include "chimera/data/dataset.h"

namespace chimera::data {

// Global sample number g = 0, 1, 2, … over the whole training; epoch = g / samples. Each epoch is a
// keyed permutation, another one every time: each sample comes exactly once per epoch.
struct SampleOrder {
  Index samples = 0;
  std::uint64_t seed = 0;
  Index at(Index g) const;  // the data set's sample
};

// Draws from several sources in proportion to weights, in O(log) time from g alone. With 2^20 slots
// shared out by weight (largest remainder, at least one each) and p = g mod 2^20, g takes slot
// 648055 p mod 2^20, a golden-ratio rotation: of every 2^20 successive draws that begin a round
// exactly the slots of each source, and of any first n about n * weight, within a few. How many of
// the draws before g went to its source follows by counting lattice points (Euclid), so each
// source's samples are in its own order, without gaps.
class Proportions {
 public:
  struct Draw {
    Index source = 0;
    Index number = 0;  // this is the source's number-th draw, from 0
  };
  // Weights are positive and finite; they need not sum to 1. At most 1,024.
  explicit Proportions(const std::vector<double>& weights);
  Draw at(Index g) const;

 private:
  std::vector<Index> first_slot_;  // per source, and the number of slots
};

// Data sets mixed by weight, each in a SampleOrder of its own (one data set: SampleOrder{n, seed}).
// A source that ends begins its next epoch.
class Mixture {
 public:
  struct Source {
    Dataset dataset;
    double weight = 1;
  };
  // All sources have the same sequence length.
  Mixture(std::vector<Source> sources, std::uint64_t seed);

  struct Position {
    Index source = 0;
    Index sample = 0;  // of that source
  };
  Position at(Index g) const;
  // inputs, targets: (T). Global sample g. Thread-safe.
  void read(Index g, std::int32_t* inputs, std::int32_t* targets) const;

  Index sources() const { return static_cast<Index>(sources_.size()); }
  const Dataset& source(Index i) const { return sources_[static_cast<std::size_t>(i)].dataset; }
  Index samples() const;  // of all sources together
  Index tokens() const;
  Index sequence_length() const { return sources_.front().dataset.sequence_length(); }
  // Over the data sets' fingerprints and weights; of one data set its own.
  std::string fingerprint() const;

 private:
  std::vector<Source> sources_;
  std::vector<SampleOrder> orders_;
  Proportions proportions_;
};

}  // namespace chimera::data
