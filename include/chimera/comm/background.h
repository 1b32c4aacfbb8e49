#pragma once
// Collectives off the critical path: one thread per worker that runs jobs one after the other, in
// the order started, while the worker's own thread computes.
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <string_view>
#include <thread>
#include <vector>

#include "chimera/comm/communicator.h"

namespace chimera {

// start() and wait() are for the worker's own thread alone. The workers whose jobs exchange
// messages must start those jobs in one order; when they wait for them is up to each.
//
//   struct Reduction final : Background::Job {
//     void run(std::string_view what) override { sum->all_reduce(mine, result, scratch, what); }
//     std::optional<OrderedSum> sum;
//     …
//   } reduction;
//   Background background(comm.second_endpoint());
//   reduction.sum.emplace(background.endpoint(), …);
//   const Background::Ticket ticket = background.start(reduction, "gradients of stage 3");
//   … compute …
//   background.wait(ticket);
//
// Declare it after the jobs and the buffers that they use: on an exception its destructor then ends
// them before these are gone.
class Background {
 public:
  // What a ticket stands for; 0 is "nothing to wait for".
  using Ticket = std::int64_t;

  class Job {
   public:
    virtual ~Job() = default;
    // In the background's thread, whose OpenMP team is 1: the cores belong to the computation. May
    // use the endpoint. `what` is start()'s, for the waits.
    virtual void run(std::string_view what) = 0;
  };

  // When a job ran.
  struct Times {
    std::chrono::steady_clock::time_point begin, end;
  };

  // `endpoint`: a Communicator::second_endpoint(). From here on it belongs to the jobs.
  explicit Background(std::unique_ptr<Communicator> endpoint);
  // Never blocks for longer than a job computes: with jobs unfinished the worker has failed
  // (Communicator::fail), their waits are interrupted, and those that have not begun never do.
  ~Background();
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  // For jobs, and for what is constructed to be used by them.
  Communicator& endpoint() { return *endpoint_; }

  // Appends the job. It, all it uses and `what` must stay valid, and untouched by others, until
  // waited for; then it may be started again. Allocates only with more tickets outstanding than
  // ever before.
  Ticket start(Job& job, std::string_view what);
  // Blocks until the job has run, and ends the ticket; tickets may be waited for in any order.
  // Rethrows what the job, or one before it, threw. The job's own waits have the deadline.
  Times wait(Ticket ticket);

 private:
  struct Entry {
    Job* job = nullptr;
    std::string_view what;
    Times times;
    bool waited_for = false;
  };
  Entry& entry(Ticket ticket);
  void work();
  void end(std::exception_ptr error);

  std::unique_ptr<Communicator> endpoint_;
  std::mutex mutex_;
  std::condition_variable started_, ended_;
  // A ring: ticket t at t mod its size. oldest_ <= next_to_run_ <= next_ticket_.
  std::vector<Entry> entries_;
  Ticket oldest_ = 1;           // that is not waited for
  Ticket next_to_run_ = 1;      // all before have run
  Ticket next_ticket_ = 1;      // the next start()'s
  std::exception_ptr failure_;  // of next_to_run_; nothing runs after it
  bool stopping_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace chimera
