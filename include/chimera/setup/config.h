#pragma once
// The whole configuration by section and key. One table, config_fields(), names every key with its
// range and meaning: reading, writing, explaining and checking all use it.
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "chimera/base/json.h"
#include "chimera/model/config.h"
#include "chimera/optim/optimizer.h"
#include "chimera/schedule/generate.h"

namespace chimera {

struct DataSource {
  std::vector<std::string> files;  // paths or shell patterns
  double weight = 1;
  bool operator==(const DataSource&) const = default;
};
struct DataConfig {
  std::vector<DataSource> train;
  std::vector<std::string> validation;
  std::string tokenizer;
  Index sequence_length = 0;  // 0: the model's n_positions
  Index seed = 1;
};

struct ParallelConfig {
  // The keys of the schedule. What a Request has beside them (tied, recompute, times) follows from
  // other keys and is unset here: schedule_request() of setup/programs.h fills it in.
  schedule::Request request = schedule::serial_request();
  Index micro_batch_size = 1;
  std::string recompute = "none";
  std::vector<Index> stage_layers;  // empty: "auto", as even as possible
  std::string calibration;          // file of `chimera bench step --save`; empty: none
  std::string transport = "auto";
  bool gpu_aware_mpi = false;
  double timeout_seconds = 600;
};

struct DeviceConfig {
  std::string kind = "auto";
  Index threads = 0;
  bool graphs = true, tune = true;
};

struct PrecisionConfig {
  std::string compute = "fp32";
  std::string loss_scale = "dynamic";
  bool stochastic_rounding = false;
};

struct TrainConfig {
  std::string init_from;  // empty: null
  Index freeze_below = 0, steps = 0, seed = 1337, log_every = 10, eval_every = 250,
        eval_batches = 20, sample_every = 0;
};

struct CheckpointConfig {
  std::string directory;
  Index every = 1000, keep = 3;
};

struct LogConfig {
  std::string directory;
  bool tensorboard = false;
  std::vector<Index> trace_steps;
};

struct Config {
  std::string preset;  // of the model; empty: shape given one by one
  model::ModelConfig model;
  DataConfig data;
  ParallelConfig parallel;
  DeviceConfig device;
  PrecisionConfig precision;
  optim::OptimizerConfig optimizer;
  optim::LrScheduleConfig lr_schedule;
  TrainConfig train;
  CheckpointConfig checkpoint;
  LogConfig log;

  Index sequence_length() const {
    return data.sequence_length > 0 ? data.sequence_length : model.n_positions;
  }
  Index workers() const { return Index{parallel.request.depth} * parallel.request.width; }
  // Sequences per step: B * N * W.
  Index batch() const {
    return parallel.micro_batch_size * parallel.request.micro_batches * parallel.request.width;
  }
};

// One key: where its value goes, what is accepted, what it means.
struct Field {
  std::string path;  // "parallel.depth"
  std::variant<Index*, int*, double*, bool*, std::string*, std::vector<std::string>*,
               std::vector<Index>*, std::vector<DataSource>*>
      target;
  double least = 0, most = 0;        // numbers
  std::vector<std::string> choices;  // text; empty: any
  std::string meaning;
  bool required = false;  // has no default of use
};
std::vector<Field> config_fields(Config& config);

// Reads a configuration from JSON text with // comments, then `overrides` ("a.b=value"). Collects
// every unknown key, wrong type, value out of range and impossible combination and throws one
// UsageError that lists them all, each with path, value and way out.
Config parse_config(const std::string& text, const std::string& name,
                    const std::vector<std::string>& overrides);
Config load_config(const std::string& path, const std::vector<std::string>& overrides);

// Impossible combinations, one line each; empty when all is well. (Part of parse_config.)
std::vector<std::string> check_config(const Config& config);

// The resolved configuration: every key, presets written out; parse_config reads it back to the
// same values.
Json config_to_json(const Config& config);
// A Markdown table of every key: default, accepted values, meaning.
std::string explain_config();

}  // namespace chimera
