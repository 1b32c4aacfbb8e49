#pragma once
// What the verifier knows while it runs the programs against each other.
#include <vector>

#include "chimera/schedule/verify.h"

namespace chimera::schedule {

constexpr std::size_t at(int i) { return static_cast<std::size_t>(i); }

// Throws: "worker 2, body[17] 't07 B p1 s2 m5 slot0': " and what is wrong.
[[noreturn]] void fail_at(const Schedule& schedule, int worker, int index, const std::string& what);
std::string place_of(const Schedule& schedule, int worker, int index);

// Checks that need no execution: sizes, ranges and places (verify_shape.cpp), then equal order on
// every link and in every group (verify_order.cpp).
void verify_shape(const Schedule& schedule);
void verify_order(const Schedule& schedule);

// One stage's work on one micro-batch.
struct MicroState {
  bool loaded = false, input_posted = false, input_here = false;
  bool forward = false, output_sent = false;
  bool gradient_posted = false, gradient_here = false;
  bool backward_input = false, backward = false, gradient_sent = false;
};

struct SlotState {
  int stage = -1, block = -1;  // whose it is; -1: free
  int under_way = 0;           // messages started and not waited for
  int unfinished = 0;          // of these, not through their last computation
};

enum class Reduction : unsigned char { None, Started, Done };

struct WorkerState {
  int next = 0;  // index in the body
  std::vector<SlotState> slots;
  std::vector<Instr> under_way;       // SendStart and RecvStart without their wait
  std::vector<Reduction> reductions;  // per stage, and the tied matrix
  std::vector<bool> held, updated;    // per stage, and the tied matrix
  bool verdict = false;
  int in_flight = 0;
};

// The machine: programs advance as far as blocking rendezvous lets them; every instruction is
// checked against the state that it meets (verify_rules.cpp).
class Machine {
 public:
  explicit Machine(const Schedule& schedule);
  VerifyReport run();

 private:
  const Instr& current(int worker) const {
    return schedule_.programs[at(worker)].body[at(workers_[at(worker)].next)];
  }
  bool ended(int worker) const {
    return workers_[at(worker)].next ==
           static_cast<int>(schedule_.programs[at(worker)].body.size());
  }
  template <class... Parts>
  [[noreturn]] void fail(int worker, const Parts&... parts) const {
    fail_at(schedule_, worker, workers_[at(worker)].next, concat(parts...));
  }

  // Execution (verify.cpp).
  bool try_step(int worker);
  bool try_message(int worker);
  bool try_together(int worker);
  std::vector<int> members(const Instr& in) const;
  bool waits_alike(const Instr& mine, int other) const;
  [[noreturn]] void report_deadlock() const;
  void check_end() const;
  void advance(int worker);

  // Rules (verify_rules.cpp).
  void check_training(int worker, const Instr& in) const;
  void load(int worker, const Instr& in);
  void forward(int worker, const Instr& in);
  void backward(int worker, const Instr& in);
  void check_send(int worker, const Instr& in) const;
  void send(int worker, const Instr& in);
  void receive(int worker, const Instr& in);
  void wait(int worker, const Instr& in);
  void reduce_start(int worker, const Instr& in);
  void reduce_wait(int worker, const Instr& in);
  void verdict(int worker);
  void update(int worker, const Instr& in);
  void free_slot(int worker, const Instr& in);
  void enter_slot(int worker, const Instr& in);
  void check_slot(int worker, const Instr& in) const;
  void join_pipe(int worker, const Instr& in);
  std::string unfinished_reason(const SlotState& slot) const;

  MicroState& micro(int stage, int m) {
    return micros_[at(stage) * at(schedule_.micro_batches) + at(m)];
  }
  const MicroState& micro(int stage, int m) const {
    return const_cast<Machine*>(this)->micro(stage, m);
  }

  const Schedule& schedule_;
  const int S_;   // stages
  int span_ = 1;  // micro-batches of one slot
  std::vector<WorkerState> workers_;
  std::vector<MicroState> micros_;  // [stage][micro]
  std::vector<int> pipe_of_;        // per micro-batch; -1: not seen
  std::vector<int> last_backward_;  // [pipe][stage]: micro-batch, -1: none
  std::vector<int> slot_of_;        // [stage][block]
  VerifyReport report_;
};

}  // namespace chimera::schedule
