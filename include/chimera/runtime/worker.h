#pragma once
// One worker: the three owners of memory (parameters, buffers, workspace), allocated once, and the
// executor that runs its instruction list on them. Nothing here asks which rank this is; the
// program does.
#include <map>
#include <optional>

#include "chimera/model/stage.h"
#include "chimera/optim/loss_scale.h"
#include "chimera/runtime/backend.h"
#include "chimera/runtime/buffer_pool.h"
#include "chimera/runtime/sample_source.h"
#include "chimera/runtime/stage_state.h"
#include "chimera/runtime/step_result.h"
#include "chimera/runtime/trace.h"
#include "chimera/setup/programs.h"

namespace chimera {

class Worker {
 public:
  // `stop_requested` is polled once per step. Everything is allocated here.
  Worker(const Config& config, const Programs& programs, Communicator& comm,
         std::function<bool()> stop_requested, Backend backend = host_backend());
  ~Worker();

  // Optimizer steps first … last - 1, counted from 0: `first` is the number of updates so far
  // (begin_at() sets it). `done` gets every step's result, in order, when its synchronisation is
  // known; overlapping schedules run later steps meanwhile. When it returns true no further step is
  // begun. Returns the first step that was not run; then nothing is in flight. Throws when loss or
  // gradients are not finite: before any update, or where steps overlap before the run goes on.
  using StepDone = std::function<bool(Index step, const StepResult& result)>;
  Index train_steps(SampleSource& samples, Index first, Index last, const StepDone& done);
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
  // Multiplies the deadline of all waits to come, also of those in the background.
  void set_timeout_scale(double factor) {
    comm_.set_timeout_scale(factor);
    tensors_.set_timeout_scale(factor);
  }

  void initialize_weights();
  // The weights that are read or set next are those after `step` updates. Older versions are copies
  // of them when training goes on, unless keep_versions() says that they have been set as well.
  void begin_at(Index step);
  void keep_versions() { versions_known_ = true; }
  const optim::LossScale& loss_scale() const { return loss_scale_; }
  // Before weights are set: its count of skipped steps says which update made them.
  void restore_loss_scale(const optim::LossScale::State& state) { loss_scale_.restore(state); }
  // Every parameter of every held stage with its moments, in the device's memory: for loading,
  // checkpoints and tests.
  struct Entry {
    const nn::Parameter& parameter;
    Tensor weight;  // the newest version
    Tensor m, v;    // F32, in the parameter's shape; sharded: of `piece`, in one dimension
    Tensor master;  // as these: what 16-bit weights are the rounding of; empty where they are F32
    optim::Piece piece;
    Tensor gradient;  // of the last step: the reduced sum (sharded: of the piece), before clipping
    bool counts;
    Index versions;
    std::function<Tensor(Index)> version;  // (i): the weights i updates ago, i < versions
  };
  void for_each_parameter(const std::function<void(const Entry&)>& visit);
  // Sets an entry's parameter to `values`, whole, on the host: the part that is kept of the master,
  // and the newest weights, rounded as the last update would have rounded them.
  void set_weight(const Entry& entry, std::span<const float> values);
  // The worker's held stages; the tied matrix under id D.
  std::map<int, StageState>& held() { return held_; }
  std::vector<plan::MemoryItem> memory() const { return footprint_.items(); }
  const BufferPool& buffers() const { return buffers_; }
  const plan::WorkerFootprint& footprint() const { return footprint_; }
  Communicator& comm() { return comm_; }  // of host memory
  Ops& ops() { return *backend_.ops; }
  Device& device() { return *backend_.device; }
  const Backend& backend() const { return backend_; }

  // Called in place of every computation, and before every update: for measuring the rest.
  void set_compute_override(std::function<void(const schedule::Instr&)> compute_override) {
    compute_override_ = std::move(compute_override);
  }
  // Appends what is executed for one of these steps; null: no more, and the times are final. On a
  // GPU they are those of its stream Compute, without collectives.
  void trace(const std::vector<Index>* steps, std::vector<TraceEvent>* events);

 private:
  struct Execution;  // what the executor needs beside the instruction: mode, iteration, samples …
  class StepSync;    // the job that sums up a step's numbers over all workers
  struct StepState;  // of a step in flight
  struct DeviceClock;
  void run(Execution& run, const schedule::Schedule& schedule);
  void execute(const schedule::Instr& instr, Execution& run);
  void execute_traced(const schedule::Instr& instr, Execution& run);
  void compute(const schedule::Instr& instr, Execution& run);
  // Of the instruction's micro-batches; begins it where the instruction does.
  BufferPool::Lease& lease_of(const schedule::Instr& instr, const Execution& run);
  void load_micro(const schedule::Instr& instr, Execution& run);
  void forward(const schedule::Instr& instr, Execution& run, BufferPool::Lease& lease);
  void replay(const schedule::Instr& instr, const nn::Pass& pass,
              const std::function<void()>& body);
  void start_message(const schedule::Instr& instr, Execution& run);
  void wait_for_message(const schedule::Instr& instr, Execution& run);
  void update(const schedule::Instr& instr, Execution& run);
  void sum_squares(StageState& held, StepState& state, std::string_view what);
  void step_sync_start(StepState& state);
  void step_sync_wait(Execution& run, StepState& state);
  // Of the first sample of the instruction's micro-batches, in the step's batch.
  Index position_of(const schedule::Instr& instr) const;
  int host_of_forward(int stage, Index micro) const;
  void reject_non_finite(const StepState& state) const;
  nn::Pass pass_for(const schedule::Instr& instr, Execution& run, const BufferPool::Lease& lease);
  StepState& state_of(Index step);
  void begin_step(Index step);
  Tensor losses_of(const StepState& state) const;
  void read_losses(const StepState& state, std::span<double> into);
  Background* background() { return background_ ? &*background_ : nullptr; }
  const model::Stage& stage_of(const schedule::Instr& instr) const {
    return stages_.at(instr.stage);
  }
  void hold(const schedule::Group& group, const plan::StageStateBytes& bytes,
            nn::ParameterLayout params);
  void name_parameters(const plan::Shape& shape);

  const Config& config_;
  const Programs& programs_;
  Communicator& comm_;
  std::function<bool()> stop_requested_;
  std::function<void(const schedule::Instr&)> compute_override_;
  const std::vector<Index>* traced_steps_ = nullptr;
  std::vector<TraceEvent>* trace_ = nullptr;
  std::unique_ptr<DeviceClock> clock_;  // of a trace on a GPU
  Backend backend_;
  Communicator& tensors_;  // messages of the device's memory: the backend's, or comm_
  int replica_, worker_;   // rank = replica * D + worker
  Index T_;
  bool sharded_, split_, versions_known_ = false;
  plan::WorkerFootprint footprint_;
  std::map<int, model::Stage> stages_;  // by stage id
  std::map<int, StageState> held_;      // by stage id, the tied matrix under D
  BufferPool buffers_;
  Buffer workspace_, reduction_scratch_;
  Buffer losses_;                     // of each step in flight: (batch), by position
  std::vector<std::int32_t> tokens_;  // of a micro-batch, on their way to the device
  Index sample_origin_ = 0;
  optim::LossScale loss_scale_;               // fed by every step synchronisation
  std::vector<StepState> states_;             // of steps in flight, by step modulo their number
  std::vector<int> parameter_stages_;         // by model order; D: the tied matrix
  std::vector<std::string> parameter_names_;  // by model order
  // Last, the background before the requests: both end before the buffers that they point to.
  AbandonAtExit abandon_{comm_}, abandon_tensors_{tensors_};
  std::optional<Background> background_;
};

}  // namespace chimera
