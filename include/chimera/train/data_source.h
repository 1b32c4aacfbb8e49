#pragma once
// Token shards as the samples of a run.
#include "chimera/data/mixture.h"
#include "chimera/setup/config.h"
#include "chimera/train/run_inputs.h"

namespace chimera::train {

// Training samples: each source in its keyed order, mixed by weight.
class MixtureSource final : public SampleSource {
 public:
  explicit MixtureSource(const Config& config);
  void read(Index number, std::int32_t* inputs, std::int32_t* targets) override {
    mixture_.read(number, inputs, targets);
  }
  const data::Mixture& mixture() const { return mixture_; }

 private:
  data::Mixture mixture_;
};

// Evaluation samples: in the order of the shards, from the first on, again from the start after the
// last.
class DatasetSource final : public SampleSource {
 public:
  DatasetSource(const std::vector<std::string>& patterns, Index sequence_length,
                Index vocabulary_size)
      : dataset_(patterns, sequence_length, vocabulary_size) {}
  void read(Index number, std::int32_t* inputs, std::int32_t* targets) override {
    dataset_.read(number % dataset_.samples(), inputs, targets);
  }
  Index size() const override { return dataset_.samples(); }
  const data::Dataset& dataset() const { return dataset_; }

 private:
  data::Dataset dataset_;
};

// Opens everything once to find what is wrong before any compute: shards, vocabulary sizes of data,
// tokenizer and model.
RunInputs open_run_inputs(const Config& config);

}  // namespace chimera::train
