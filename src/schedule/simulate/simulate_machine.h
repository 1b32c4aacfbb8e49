#pragma once
// One simulated run: workers, messages and reductions as events in order of time.
#include <deque>
#include <queue>
#include <vector>

#include "simulate_program.h"

namespace chimera::schedule {

struct SimulatedRun {
  double makespan = 0;
  std::vector<double> step_ends;
  std::vector<WorkerTimes> workers;  // idle times and waits summed over all steps
};

class EventMachine {
 public:
  EventMachine(const SimulatedPrograms& programs, const Costs& costs, int steps, bool timeline);
  // Throws Error, naming worker and instruction, when workers wait for each other for ever.
  SimulatedRun run();

 private:
  struct Transfer {
    int channel = 0;
    bool sent = false, received = false, done = false;
    double bytes = 0;
  };
  struct Worker {
    int iteration = 0;
    std::size_t next = 0;  // in the body
    bool entered = false;  // the next instruction has begun
    bool finished = false;
    double since = 0;  // it began to wait
    // A computation or update under way: what is left of it at `updated`, at this speed.
    bool occupied = false;
    double started = 0, remaining = 0, updated = 0, speed = 1;
    int generation = 0;
    double last_end = 0;         // of its last computation or update
    bool computed = false;       // something, in this iteration
    std::deque<int> queue;       // reductions posted and not over, in the order posted
    bool reducing = false;       // the first of them is under way
    std::vector<int> transfers;  // [key][step modulo lag + 1] -> transfer
    int activation_buffers = 0, boundary_buffers = 0;
  };
  struct Summing {  // one reduction of one step
    int posted = 0;
    bool begun = false, done = false;
    double started = 0;
  };
  struct StepSyncState {
    int posted = 0;
    bool done = false;
  };
  enum class Kind { Occupation, Transfer, Reduction, StepSync };
  struct Event {
    double time;
    Index order;  // events of the same time in the order made
    Kind kind;
    int id, generation;
    bool operator>(const Event& o) const {
      return time != o.time ? time > o.time : order > o.order;
    }
  };

  void advance(int worker);
  bool skip_to_next(Worker& w, const std::vector<TimedInstr>& body) const;
  void begin(int worker, const TimedInstr& timed, int step);
  bool complete(int worker, const TimedInstr& timed, int step);
  void end(int worker, const TimedInstr& timed, int step);
  void count_buffers(int worker, int activations, int boundary);

  void occupy(int worker, const TimedInstr& timed);
  void change_speed(int worker);
  int& transfer_of(int worker, const TimedInstr& timed, int step);
  void post_message(int worker, const TimedInstr& timed, int step);
  void begin_transfer(int id);
  int reduction_id(const TimedInstr& timed, int step) const;
  void post_reduction(int worker, int id);
  void try_begin_reduction(int id);
  void end_reduction(int id);
  void handle(const Event& event);
  void push(double time, Kind kind, int id, int generation = 0);
  [[noreturn]] void fail_stuck() const;

  const SimulatedPrograms& programs_;
  const Costs& costs_;
  const int steps_;
  const bool timeline_;
  double now_ = 0;
  Index order_ = 0;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::vector<int> ready_;  // workers that may have something to do
  std::vector<Worker> workers_;
  std::vector<Transfer> transfers_;
  std::vector<std::deque<int>> waiting_;  // per channel: transfers that one end has posted
  std::vector<double> link_free_;
  std::vector<Summing> reductions_;  // [step][reduction]
  std::vector<StepSyncState> step_syncs_;
  SimulatedRun out_;
};

}  // namespace chimera::schedule
