#pragma once
// One worker: the three owners of memory (parameters, slots, workspace), allocated once, and the
// executor that runs its instruction list on them. Nothing here asks which rank this is; the
// program does.
#include <map>
#include <optional>

#include "chimera/comm/collectives.h"
#include "chimera/device/device.h"
#include "chimera/model/stage.h"
#include "chimera/schedule/instr.h"
#include "chimera/train/config.h"

namespace chimera::train {

// Where samples come from, by global number (step * batch + position in the batch): the same on any
// layout.
class SampleSource {
 public:
  virtual ~SampleSource() = default;
  virtual Index size() const { return 0; }  // samples there are; 0: without end
  // Fills T inputs and T targets of global sample `number`.
  virtual void read(Index number, std::int32_t* inputs, std::int32_t* targets) = 0;
};

// The programs of a run: one step of training, and one batch of evaluation on the same placement.
struct Programs {
  schedule::Schedule train, evaluation;
};
Programs build_programs(const Config& config);
std::vector<Index> stage_layers(const Config& config);

// A stage's parameters on this worker: one copy of the weights however many pipes bring the stage,
// one gradient accumulator per (pipe, use).
struct HeldStage {
  int id = 0;  // 0 … D-1; D: the tied matrix
  nn::ParameterLayout params;
  Buffer weights, m, v;
  struct Accumulator {
    int pipe = 0, use = 0;
    Buffer sums;
  };
  std::vector<Accumulator>
      accumulators;     // ascending (pipe, use); the first also receives the reduced sum
  bool counts = false;  // this worker counts the stage in the norm and writes it to checkpoints
  std::optional<OrderedSum> reduction;
};

struct MemoryItem {
  std::string owner, name;  // "parameters", "slots", "workspace"
  Index bytes = 0;
};

struct StepResult {
  double loss = 0, grad_norm = 0, learning_rate = 0;
  double data_seconds = 0;  // mean over workers of the time in LoadMicro
  bool stop = false;        // some worker was asked to stop
};

class Worker {
 public:
  // `stop_requested` is polled once per step. Everything is allocated here.
  Worker(const Config& config, const Programs& programs, Communicator& comm,
         std::function<bool()> stop_requested, std::unique_ptr<Ops> ops = make_cpu_ops(),
         std::unique_ptr<Device> device = make_host_device());

  // One optimizer step. `step` counts from 0. Throws when loss or gradients are not finite, before
  // any update.
  StepResult train_step(SampleSource& samples, Index step);
  struct Evaluation {
    double loss = 0;
    bool stop = false;
  };
  // Mean loss over evaluation samples 0 … count - 1; changes nothing that training sees. Samples
  // that fill up the last batch are computed (number modulo count) and not counted.
  Evaluation evaluate(SampleSource& samples, Index count);
  // Added to step * batch to give the global number of a step's first sample: 0 unless the batch
  // size changed on resume, so that the data cursor goes on where it was.
  void set_sample_origin(Index origin) { sample_origin_ = origin; }

  void initialize_weights();
  // Every parameter of every held stage with its moments: for loading, checkpoints and tests.
  struct Entry {
    const nn::Parameter& parameter;
    Tensor weight, m, v;
    Tensor gradient;  // of the last step: the reduced sum, before clipping
    bool counts;
  };
  void for_each_parameter(const std::function<void(const Entry&)>& visit);
  std::vector<MemoryItem> memory() const;
  Communicator& comm() { return comm_; }
  Ops& ops() { return *ops_; }

 private:
  struct Execution;  // what the executor needs beside the instruction: mode, step, samples, channel
                     // offset
  void execute(const std::vector<schedule::Instr>& program, Execution& run);
  void execute(const schedule::Instr& instr, Execution& run);
  void load_micro(const schedule::Instr& instr, Execution& run);
  void forward(const schedule::Instr& instr, Execution& run);
  void verdict(Execution& run);
  int host_of_forward(int stage, Index micro) const;
  void update(HeldStage& stage, const Execution& run);
  void reject_non_finite(const Execution& run, const std::vector<double>& values) const;
  nn::Pass pass_for(const schedule::Instr& instr, const Execution& run);
  nn::SlotView slot_of(const schedule::Instr& instr, const Execution& run);
  Tensor message_buffer(const schedule::Instr& instr, const Execution& run, bool sending);
  Communicator::Request& request_of(const schedule::Instr& instr, bool sending);
  const model::Stage& stage_of(const schedule::Instr& instr) const {
    return stages_.at(instr.stage);
  }
  Flat gradients_of(int stage, int pipe, int use);
  void hold(int stage, const schedule::Group& group, nn::ParameterLayout params);

  const Config& config_;
  const Programs& programs_;
  Communicator& comm_;
  std::function<bool()> stop_requested_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Ops> ops_;
  int replica_, worker_;  // rank = replica * D + worker
  Index T_;
  std::map<int, model::Stage> stages_;  // by stage id
  std::map<int, HeldStage> held_;       // by stage id, the tied matrix under D
  Index slot_bytes_ = 0, slot_count_ = 0;
  Buffer slots_, workspace_, reduction_scratch_;
  std::vector<Index> slot_first_micro_;  // of each physical slot
  std::vector<std::array<Communicator::Request, 4>>
      requests_;  // per slot: sending?, activation or gradient
  Index sample_origin_ = 0;
  std::vector<double> sample_losses_;         // of the step, by position in the batch
  std::vector<int> parameter_stages_;         // by model order; D: the tied matrix
  std::vector<std::string> parameter_names_;  // by model order
  AbandonAtExit abandon_{comm_};              // last: requests end before the buffers they point to
};

}  // namespace chimera::train
