// The local transport: workers are threads of this process.
#include <thread>

#include "chimera/base/threads.h"
#include "local_hub.h"

namespace chimera {
namespace {

class LocalCommunicator final : public Communicator, public ParcelPost {
 public:
  // `first`: of the same worker, where this is its second endpoint.
  LocalCommunicator(LocalHub& hub, int rank, const LocalCommunicator* first = nullptr)
      : hub_(hub), self_{rank, first == nullptr ? 0 : 1}, first_(first) {}
  int rank() const override { return self_.worker; }
  int size() const override { return hub_.workers(); }
  std::string transport() const override { return "local"; }

  Request send_start(int peer, int channel, std::span<const std::byte> bytes) override {
    return hub_.post(self_, peer, channel, LocalHub::Side::Send,
                     const_cast<std::byte*>(bytes.data()), std::ssize(bytes));
  }
  Request recv_start(int peer, int channel, std::span<std::byte> bytes) override {
    return hub_.post(self_, peer, channel, LocalHub::Side::Receive, bytes.data(),
                     std::ssize(bytes));
  }
  void wait(Request request, std::string_view what) override {
    hub_.wait(self_, request, what,
              timeout_scale() * (first_ == nullptr ? 1 : first_->timeout_scale()));
  }
  Request send_parcel(int peer, int channel, Parcel& parcel, Index bytes) override {
    return hub_.post(self_, peer, channel, LocalHub::Side::Send, nullptr, bytes, &parcel);
  }
  Request recv_parcel(int peer, int channel, Parcel& parcel, Index bytes) override {
    return hub_.post(self_, peer, channel, LocalHub::Side::Receive, nullptr, bytes, &parcel);
  }
  void throw_if_failed() override { hub_.throw_if_failed(self_); }
  void abandon() noexcept override { hub_.abandon(self_); }

  std::unique_ptr<Communicator> second_endpoint() override {
    ENSURE(first_ == nullptr, "a second endpoint has no second endpoint");
    return std::make_unique<LocalCommunicator>(hub_, self_.worker, this);
  }
  void fail(std::exception_ptr error) noexcept override { hub_.fail(self_.worker, error); }

 private:
  LocalHub& hub_;
  const LocalHub::Endpoint self_;
  const LocalCommunicator* const first_;
};

}  // namespace

void run_local(int workers, double deadline_seconds, int threads_per_worker,
               const std::function<void(Communicator&)>& body) {
  ENSURE(workers >= 1, "a run needs at least 1 worker, not ", workers);
  LocalHub hub(workers, deadline_seconds);
  const auto work = [&](int rank) {
    LocalCommunicator endpoint(hub, rank);
    try {
      set_team_size(threads_per_worker);
      body(endpoint);
      hub.finish(rank);
    } catch (...) {
      hub.fail(rank, std::current_exception());
    }
  };
  if (workers == 1) {
    const int team = team_size();
    work(0);
    set_team_size(team);
  } else {
    std::vector<std::thread> threads;
    threads.reserve(static_cast<std::size_t>(workers));
    try {
      for (int rank = 0; rank < workers; ++rank) threads.emplace_back(work, rank);
    } catch (...) {  // the system has no more threads
      hub.fail(static_cast<int>(threads.size()), std::current_exception());
    }
    for (std::thread& thread : threads) thread.join();
  }
  hub.rethrow_failure();
}

}  // namespace chimera
