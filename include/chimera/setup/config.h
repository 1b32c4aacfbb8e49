#pragma once
// The whole configuration by section and key. A new key is a member here and a line of the table in
// src/setup/config_fields.cpp: reading, writing, explaining and checking follow from the table.
#include <string>
#include <vector>

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

}  // namespace chimera
