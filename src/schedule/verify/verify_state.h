#pragma once
// What the verifier knows while it runs the programs against each other.
#include <map>
#include <tuple>
#include <vector>

#include "at.h"
#include "chimera/schedule/verify.h"

namespace chimera::schedule {

// Throws: "worker 2, body[17] 't07 B p1 s2 m5': " and what is wrong.
[[noreturn]] void fail_at(const Schedule& schedule, int worker, int index, const std::string& what);
std::string place_of(const Schedule& schedule, int worker, int index);

// Checks that need no execution: sizes, ranges and places (verify_shape.cpp), then equal order on
// every link and in every group (verify_order.cpp).
void verify_shape(const Schedule& schedule);
void verify_order(const Schedule& schedule);

// One stage's work on one micro-batch of one step.
struct MicroState {
  bool loaded = false, input_here = false, forward = false, output_sent = false;
  bool recomputed = false, gradient_here = false;
  bool backward_input = false, backward = false, gradient_sent = false;
};

// What a block of micro-batches at one stage of one step holds: a boundary buffer, and an
// activation buffer while some of them need it. When that is, the verifier says itself
// (verify_rules.cpp), on purpose without the predicates of instr.h: those who share a mistake
// cannot find it.
struct Lease {
  int under_way = 0;  // messages started and not waited for
  int live = 0;       // micro-batches that need the activation buffer
};
using LeaseKey = std::tuple<int, int, int>;  // step, stage, block

// Of one group at one worker, over all steps.
struct GroupState {
  bool held = false;
  int started = 0, reduced = 0;  // steps whose reduction has started, is over
  int normed = 0;                // steps whose norm has been summed up along the shards' holders
  int updates = 0;               // done so far: the number of the newest weights
  int gather_started = 0, gathered = 0;
  bool scatters = false;
};

struct WorkerState {
  int iteration = 0, next = 0;  // index in the body
  std::map<LeaseKey, Lease> leases;
  int activations = 0;           // activation buffers in use
  std::vector<Instr> under_way;  // SendStart and RecvStart without their wait; step is the real one
  std::vector<GroupState> groups;
  std::vector<int> last_backward;  // per (pipe, stage) of this worker's current step
  int step_syncs_started = 0, step_syncs = 0;
  int in_flight = 0;
};

// The machine: programs advance as far as blocking rendezvous lets them; every instruction is
// checked against the state that it meets (verify_rules.cpp).
class Machine {
 public:
  // Runs steps 0 … steps - 1.
  Machine(const Schedule& schedule, int steps);
  VerifyReport run();

 private:
  const Instr& current(int worker) const {
    return schedule_.programs[at(worker)].body[at(workers_[at(worker)].next)];
  }
  bool ended(int worker) const { return workers_[at(worker)].iteration == steps_ + lag_; }
  // The step that the worker's current instruction is for.
  int step(int worker) const { return workers_[at(worker)].iteration + current(worker).step; }
  template <class... Parts>
  [[noreturn]] void fail(int worker, const Parts&... parts) const {
    const std::string where =
        lag_ == 0 ? "" : concat("(iteration ", workers_[at(worker)].iteration, ") ");
    fail_at(schedule_, worker, workers_[at(worker)].next, where + concat(parts...));
  }

  // Execution (verify.cpp).
  bool try_step(int worker);
  bool try_message(int worker);
  bool try_together(int worker);
  std::vector<int> members(const Instr& in) const;
  bool waits_alike(int mine, int other) const;
  [[noreturn]] void report_deadlock() const;
  void check_end() const;
  void check_ticks() const;
  void advance(int worker);
  void skip(int worker);  // to the next instruction that this run executes

  // Rules (verify_rules.cpp, verify_groups.cpp).
  void check_training(int worker, const Instr& in) const;
  void load(int worker, const Instr& in);
  void forward(int worker, const Instr& in);
  void recompute(int worker, const Instr& in);
  void backward(int worker, const Instr& in);
  void check_send(int worker, const Instr& in) const;
  void send(int worker, const Instr& in);
  void receive(int worker, const Instr& in);
  void wait(int worker, const Instr& in);
  void release(int worker, const Instr& in);
  void acquire_boundary(int worker, const Instr& in);
  void acquire_activations(int worker, Lease& lease, int count);
  void release_activations(int worker, Lease& lease, int count);
  Lease& lease(int worker, const Instr& in);
  void join_pipe(int worker, const Instr& in);

  void check_version(int worker, const Instr& in) const;
  void check_accumulators(int worker, int stage) const;
  void check_complete(int worker, int stage) const;
  void reduce_start(int worker, const Instr& in);
  void reduce_wait(int worker, const Instr& in);
  void grad_norm(int worker, const Instr& in);
  void gather_start(int worker, const Instr& in);
  void gather_wait(int worker, const Instr& in);
  void step_sync_start(int worker);
  void step_sync_wait(int worker);
  void update(int worker, const Instr& in);

  MicroState& micro(int step, int stage, int m) {
    return micros_[(at(step) * at(S_) + at(stage)) * at(schedule_.micro_batches) + at(m)];
  }
  const MicroState& micro(int step, int stage, int m) const {
    return const_cast<Machine*>(this)->micro(step, stage, m);
  }
  bool barrier() const { return schedule_.period == 0; }

  const Schedule& schedule_;
  const int S_, steps_, lag_, span_;  // stages, run, largest -step, micro-batches of one buffer
  const bool recomputes_;
  std::vector<WorkerState> workers_;
  std::vector<MicroState> micros_;  // [step][stage][micro]
  std::vector<int> pipe_of_;        // per micro-batch, from the programs; -1: none
  VerifyReport report_;
};

}  // namespace chimera::schedule
