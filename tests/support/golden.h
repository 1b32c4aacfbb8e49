#pragma once
// The reference models of the golden folder, and running them under any layout.
#include <map>
#include <string>
#include <vector>

#include "chimera/base/json.h"
#include "chimera/checkpoint/safetensors.h"
#include "chimera/runtime/worker.h"

namespace chimera::test {

// One of golden_folder()'s models: "tied" or "untied". All sizes are read from its files.
class GoldenModel {
 public:
  explicit GoldenModel(const std::string& name);

  const std::string& name() const { return name_; }
  Index batch() const { return batch_; }
  Index layers() const { return model_.n_layer; }
  Index steps() const { return steps_; }
  Index sequence_length() const { return T_; }
  const std::string& folder() const { return folder_; }
  // The configuration of run "plain" or "rich": serial, the whole batch as one micro-batch.
  Config config(const std::string& run) const;
  struct Point {
    double loss, grad_norm, learning_rate;
  };
  std::vector<Point> curve(const std::string& run) const;
  // Row g of the reference's tokens: T + 1 of them.
  const std::int32_t* sample(Index g) const { return tokens_.data() + g * (T_ + 1); }
  // Tensors in double, by name: "model", "step", "after_plain", "after_rich" are the files.
  std::vector<double> tensor(const std::string& file, const std::string& name) const;

 private:
  std::string name_, folder_;
  model::ModelConfig model_;
  Index batch_ = 0, steps_ = 0, T_ = 0;
  std::vector<std::int32_t> tokens_;
};

// Samples in the reference's order, or in one of the test's making; after its steps once more.
class GoldenSamples final : public SampleSource {
 public:
  explicit GoldenSamples(const GoldenModel& model, std::vector<Index> order = {})
      : model_(model), order_(std::move(order)) {}
  void read(Index number, std::int32_t* inputs, std::int32_t* targets) override;

 private:
  const GoldenModel& model_;
  std::vector<Index> order_;  // of a step's batch
};

// Sets every parameter of the worker to the reference's.
void read_golden_weights(Worker& worker, const checkpoint::SafetensorsFile& source);

struct Outcome {
  std::vector<StepResult> steps;
  // In fp32: weights as they are computed with after the last step; gradients of step 0, without
  // the loss scale.
  std::map<std::string, std::vector<float>> weights, first_gradients;
};
// Runs `steps` steps with local workers, one thread each, from the golden weights; on what
// make_backend says for `config` where its device.kind is cuda, else on the CPU.
Outcome run_layout(const GoldenModel& model, const Config& config, Index steps,
                   const std::vector<Index>& order = {});

Config with_layout(Config config, const std::string& schedule, Index depth, Index width,
                   Index micro_batches, Index batch);

// ||a - b|| / ||b||.
double relative_error(const std::vector<float>& a, const std::vector<double>& b);

}  // namespace chimera::test
