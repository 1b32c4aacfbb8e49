#pragma once
// Applies a function to a stream of items on several threads and gives the results back in order,
// with a bounded number in flight.
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <vector>

#include "chimera/base/threads.h"
#include "chimera/base/types.h"

namespace chimera::data {

template <class In, class Out>
class OrderedMap {
 public:
  // `make` is called once per thread for a function with state of its own.
  using Function = std::function<Out(In)>;
  OrderedMap(int threads, const std::function<Function()>& make) {
    for (int i = 0; i < threads; ++i)
      workers_.emplace_back([this, work = make()](std::stop_token stop) { run(work, stop); });
  }
  // On destruction items not yet begun are dropped.

  void push(In in) {
    {
      const std::lock_guard lock(mutex_);
      slots_.push_back(std::make_unique<Slot>(Slot{std::move(in), {}, {}, false}));
      waiting_.push_back(slots_.back().get());
    }
    work_.notify_one();
  }
  std::size_t in_flight() const { return slots_.size(); }

  // The result of the oldest item pushed and not popped; waits for it; rethrows its exception.
  Out pop() {
    std::unique_lock lock(mutex_);
    done_.wait(lock, [&] { return slots_.front()->done; });
    const std::unique_ptr<Slot> slot = std::move(slots_.front());
    slots_.pop_front();
    lock.unlock();
    if (slot->error) std::rethrow_exception(slot->error);
    return std::move(*slot->out);
  }

 private:
  struct Slot {
    In in;
    std::optional<Out> out;
    std::exception_ptr error;
    bool done = false;
  };

  void run(const Function& work, const std::stop_token& stop) {
    set_team_size(1);  // the cores are shared out among these threads
    std::unique_lock lock(mutex_);
    while (work_.wait(lock, stop, [&] { return !waiting_.empty(); }) && !stop.stop_requested()) {
      Slot& slot = *waiting_.front();
      waiting_.pop_front();
      lock.unlock();
      try {
        slot.out.emplace(work(std::move(slot.in)));
      } catch (...) {
        slot.error = std::current_exception();
      }
      lock.lock();
      slot.done = true;
      done_.notify_one();
    }
  }

  std::mutex mutex_;
  std::condition_variable_any work_;
  std::condition_variable done_;
  std::deque<std::unique_ptr<Slot>> slots_;  // touched by push and pop, one caller
  std::deque<Slot*> waiting_;
  std::vector<std::jthread> workers_;  // last: they are joined before the rest goes
};

}  // namespace chimera::data
