#include "chimera/comm/background.h"

#include <utility>

#include "chimera/base/threads.h"

namespace chimera {
namespace {

constexpr std::size_t kTickets = 64;  // outstanding, to begin with

}  // namespace

Background::Background(std::unique_ptr<Communicator> endpoint)
    : endpoint_(std::move(endpoint)), entries_(kTickets), thread_([this] { work(); }) {}

Background::~Background() {
  bool unfinished = false;
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    unfinished = next_to_run_ < next_ticket_;
  }
  started_.notify_one();
  if (unfinished) endpoint_->fail(nullptr);
  thread_.join();
}

Background::Entry& Background::entry(Ticket ticket) {
  return entries_[static_cast<std::size_t>(ticket) % entries_.size()];
}

Background::Ticket Background::start(Job& job, std::string_view what) {
  std::lock_guard lock(mutex_);
  if (next_ticket_ - oldest_ == std::ssize(entries_)) {
    std::vector<Entry> larger(2 * entries_.size());
    for (Ticket t = oldest_; t < next_ticket_; ++t)
      larger[static_cast<std::size_t>(t) % larger.size()] = entry(t);
    entries_ = std::move(larger);
  }
  entry(next_ticket_) = {.job = &job, .what = what, .times = {}, .waited_for = false};
  started_.notify_one();
  return next_ticket_++;
}

Background::Times Background::wait(Ticket ticket) {
  if (ticket == 0) return {};
  std::unique_lock lock(mutex_);
  ENSURE(ticket >= oldest_ && ticket < next_ticket_ && !entry(ticket).waited_for, "ticket ", ticket,
         " of a background job has been waited for, or was never given");
  ended_.wait(lock, [&] { return next_to_run_ > ticket || failure_; });
  if (next_to_run_ <= ticket) std::rethrow_exception(failure_);
  entry(ticket).waited_for = true;
  const Times times = entry(ticket).times;
  while (oldest_ < next_to_run_ && entry(oldest_).waited_for) ++oldest_;
  return times;
}

void Background::work() {
  try {
    set_team_size(1);
    for (std::unique_lock lock(mutex_);;) {
      started_.wait(lock, [&] { return stopping_ || next_to_run_ < next_ticket_; });
      if (stopping_) return;
      const Entry next = entry(next_to_run_);
      lock.unlock();
      Times times;
      times.begin = std::chrono::steady_clock::now();
      next.job->run(next.what);
      times.end = std::chrono::steady_clock::now();
      lock.lock();
      entry(next_to_run_++).times = times;
      ended_.notify_one();
    }
  } catch (const Aborted&) {  // the failure is known
    end(std::current_exception());
  } catch (...) {
    endpoint_->fail(std::current_exception());
    end(std::current_exception());
  }
}

void Background::end(std::exception_ptr error) {
  endpoint_->abandon();
  std::lock_guard lock(mutex_);
  failure_ = std::move(error);
  ended_.notify_one();
}

}  // namespace chimera
