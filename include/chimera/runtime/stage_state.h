#pragma once
// A stage's parameters on one worker: one copy of each weight version however many pipes bring the
// stage, one gradient accumulator per (pipe, use), the optimizer's state or this worker's shard of
// it (under 16-bit weights with the fp32 master weights that these round), and the reduction that
// joins all holders.
#include <memory>
#include <optional>

#include "chimera/comm/background.h"
#include "chimera/comm/collectives.h"
#include "chimera/device/device.h"
#include "chimera/optim/optimizer.h"
#include "chimera/plan/footprint.h"
#include "chimera/schedule/instr.h"

namespace chimera {

class StageState {
 public:
  // `bytes` says how much of what; contributions of all replicas in the order of addition.
  StageState(Device& device, const schedule::Group& group, const plan::StageStateBytes& bytes,
             nn::ParameterLayout params, int worker, bool counts, bool sharded);
  ~StageState();
  // After construction, where several contributions exist: `comm` and `scratch` outlive this.
  void join(Communicator& comm, std::vector<int> contributors, float* scratch);

  int id() const { return id_; }
  const nn::ParameterLayout& params() const { return params_; }
  nn::ParameterLayout& params() { return params_; }
  bool counts() const { return counts_; }  // this worker writes it to checkpoints
  bool sharded() const { return sharded_; }
  const optim::Shard& shard() const { return shard_; }  // of m, v and the master
  Index versions() const { return versions_; }
  // Of a stage with several holders: their ranks, ascending, and the one that counts it.
  const std::vector<int>& members() const;
  int counting_rank() const { return counting_rank_; }

  // Weights after `number` updates, as far as they are kept; numbers before the first update wrap
  // into copies of the initial weights.
  Flat weights(Index number) const;
  Index newest() const { return newest_; }
  // The weights that are written next have this number, and no gradient belongs to a step.
  void begin_at(Index number);
  void spread_newest();  // older versions become copies of it

  // The accumulator of (pipe, use) for `step`, zero at the step's first use.
  Flat gradients(int pipe, int use, Index step);
  // The reduced sum of the last step that was summed up or updated.
  Flat sum() const { return sum_; }

  // The sum of all holders' gradients of `step`, in the background where there is one. One at a
  // time.
  enum class Collective { AllReduce, ReduceScatter, AllGather };
  void start(Collective kind, Index step, Background* background);
  std::optional<Background::Times> wait(Background* background);

  // What this worker brings to the sums of squares: values[order] of each tensor that it counts, or
  // of which its shard has the end, with one wait for the device. Sharded, all members call it: a
  // tensor cut by shards is summed up along the holders, in order (GradNorm); `what` names the
  // waits.
  void sum_squares(Ops& ops, Communicator& comm, int channel, Index step,
                   std::vector<double>& values, std::string_view what);
  // Makes version step + 1 from version step; `gradients(…, step)` are reduced.
  void update(Ops& ops, const optim::OptimizerConfig& config, const optim::StepNumbers& numbers,
              Index step, Index n_layer);
  void skip_update(Index step);  // version step + 1 is version step

  Flat m() const { return {m_.data()}; }
  Flat v() const { return {v_.data()}; }
  // The parameters in fp32, where the weights are of 16 bits.
  bool has_master() const { return type_ != DType::F32; }
  Flat master() const { return {master_.data()}; }

 private:
  struct Accumulator {
    int pipe = 0, use = 0;
    Buffer sums;               // one after the other, for as many steps as are filled at once
    std::vector<Index> steps;  // whose gradients are in each; -1: nobody's
  };
  class Reduction;
  float* accumulate(Accumulator& a, Index step);
  Flat begin_update(Index step);  // the weights to be made, which are those of `step` as yet

  Device& device_;
  int id_;
  nn::ParameterLayout params_;
  DType type_;                 // of the weights
  Index copy_, weight_bytes_;  // of one accumulator; of one version
  Index versions_, newest_ = 0, gradient_steps_;
  bool counts_, sharded_;
  int counting_rank_ = -1;
  optim::Shard shard_;
  Buffer weights_, m_, v_, master_;
  std::vector<Accumulator> accumulators_;  // ascending (pipe, use); the first receives the sum
  Flat sum_;
  std::vector<Tensor> normed_;  // of sum_squares
  std::vector<double> norms_;
  std::vector<AdamWTensor> update_;
  std::unique_ptr<Reduction> reduction_;
  Background::Ticket ticket_ = 0;
};

}  // namespace chimera
