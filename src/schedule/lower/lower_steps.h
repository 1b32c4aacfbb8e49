#pragma once
// From step 0's clock to the body of a program: waits for the last messages, reductions, step
// synchronisation and updates, then the fold by the period.
#include <map>
#include <vector>

#include "at.h"
#include "chimera/schedule/lower.h"

namespace chimera::schedule {

class Timeline {
 public:
  Timeline(const ComputePlan& plan, const LowerOptions& options);

  // An instruction of a worker, within its tick after those placed before: among the computations
  // of the tick, or among the messages that follow them.
  void compute(int worker, const Instr& in) { place(worker, in, Phase::Compute); }
  void message(int worker, const Instr& in) { place(worker, in, Phase::Exchange); }
  // A message after which the buffer is needed no more by others: its SendWait is placed here, too.
  void last_send(int worker, const Instr& send);
  // `in` was the last computation in the buffer of `size` micro-batches from `first` on.
  void finished(int worker, const Instr& in, int first, int size);

  Schedule finish();

 private:
  // Order within a tick. Updates that a computation needs come before it; reductions of gradients
  // that it completed after the messages that it made.
  enum class Phase { Update, Compute, Wait, Exchange, Reduce, Close };
  struct Item {
    Phase phase;
    Instr in;
  };
  struct Place {  // in the body
    int tick;
    Phase phase;
    int lag, index;  // iterations after its step's first; of the Item: in the order of placement
    auto operator<=>(const Place&) const = default;
  };
  struct Lease {  // of a boundary buffer
    int worker;
    Instr free;
    int tick;  // when the last computation is over
    Phase phase = Phase::Compute;
  };
  int& lease_of(const Instr& in) {  // index into leases_; -1: none yet
    return lease_of_[at(in.stage * plan_.micro_batches + in.micro)];
  }
  // When one worker uses the weights and fills the gradients of a group.
  struct Use {
    int first_forward = kNever, first_gradient = kNever, last_gradient = -1, version = 0;
  };
  static constexpr int kNever = 1 << 29;

  void place(int worker, Instr in, Phase phase);
  int position(int tick) const { return tick % period_; }
  void wait_for_last_sends();
  void release_buffers();
  std::map<int, Use> uses(const Group& group) const;  // by worker
  bool has_bubble_after(const Group& group, int tick) const;
  bool starts_eagerly(const Group& group, int tick) const;
  void end_with_barrier();
  void overlap();
  void collective(int worker, Op op, int stage, int tick, Phase phase);
  void step_op(int worker, Op op, int stage, int tick, Phase phase);
  Op find_reduction(const Group& group) const;  // Update where nothing is to be reduced
  Op reduction_of(const Group& group) const { return reductions_[at(group.stage)]; }
  void fold();
  void count_buffers();

  const ComputePlan& plan_;
  const LowerOptions& options_;
  int period_;  // of the plan; with a barrier the length of the step
  Schedule out_;
  std::vector<std::vector<Item>> items_;        // per worker
  std::vector<std::vector<Instr>> last_sends_;  // per worker
  std::vector<Lease> leases_;
  std::vector<int> lease_of_;   // [stage][micro]
  std::vector<Op> reductions_;  // per group
};

}  // namespace chimera::schedule
