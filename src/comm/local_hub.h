#pragma once
// Where the workers of one process meet: matches posted sends with posted receives.
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "chimera/comm/communicator.h"
#include "parcel.h"

namespace chimera {

// A message is copied once, from the sender's buffer to the receiver's, by whoever posts second,
// outside the lock; or its parcel is moved then. Everything else happens under one mutex, held for
// some list operations.
class LocalHub {
 public:
  enum class Side { Send, Receive };
  LocalHub(int workers, double deadline_seconds);

  // A worker's first or second endpoint: messages stay among the first, or among the second ones.
  struct Endpoint {
    int worker = 0, layer = 0;
    bool operator==(const Endpoint&) const = default;
  };
  static constexpr int kLayers = 2;

  int workers() const { return workers_; }

  // With a parcel on both sides, or on neither; it must stay until the request is waited for.
  Communicator::Request post(Endpoint endpoint, int peer, int channel, Side side, std::byte* data,
                             Index bytes, Parcel* parcel = nullptr);
  void wait(Endpoint endpoint, Communicator::Request request, std::string_view what,
            double timeout_scale);
  void throw_if_failed(Endpoint endpoint);
  void abandon(Endpoint endpoint) noexcept;

  // A body returned: Error when it left requests behind.
  void finish(int worker);
  // A body threw, or one of the worker's threads did. The first call counts, unless abandon() or a
  // call with null named the worker before; Aborted never does.
  void fail(int worker, std::exception_ptr error) noexcept;
  // After all bodies: throws the first failure, if any.
  void rethrow_failure();

 private:
  using Lock = std::unique_lock<std::mutex>;
  enum class State { Free, Posted, Copying, Done };
  struct Post {
    State state = State::Free;
    Side side = Side::Send;
    Endpoint owner;
    int peer = 0;
    std::byte* data = nullptr;
    Index bytes = 0;
    Parcel* parcel = nullptr;
    std::uint32_t generation = 0;  // tells a request from an earlier one in the same place
    int next = -1;                 // in the link's queue, or in the list of free posts
  };
  // Posts without a partner, oldest first: all sends or all receives.
  struct Link {
    int first = -1, last = -1;
  };
  struct EndpointState {
    std::condition_variable changed;
    int requests = 0, copying = 0;  // posts of this endpoint: all, those a thread copies right now
    bool finished = false;
    int waits_for = -1;     // a peer, during wait()
    std::string_view what;  // the wait's name
  };

  Post& at(int index) { return posts_[static_cast<std::size_t>(index)]; }
  EndpointState& state_of(Endpoint endpoint) {
    return endpoints_[static_cast<std::size_t>(endpoint.worker * kLayers + endpoint.layer)];
  }
  Link& link(int layer, int source, int destination, int channel);
  int take_post();
  int find(Endpoint endpoint, Communicator::Request request);
  void release(int index);
  std::string mismatch(int sent, int received, int channel);
  void copy(Lock& lock, Endpoint endpoint, int sent, int received);
  void wake_all();
  void record_failure(int worker, std::exception_ptr error);
  void drain(Lock& lock, Endpoint endpoint);
  [[noreturn]] void leave(Lock& lock, Endpoint endpoint);
  std::string waited_too_long(const Post& post, std::string_view what, double seconds);

  const std::chrono::steady_clock::duration deadline_;
  const int workers_;
  std::mutex mutex_;
  std::vector<Post> posts_;
  int free_ = -1;
  std::vector<std::vector<Link>> links_;  // [(layer, source, destination)][channel]
  std::vector<EndpointState> endpoints_;  // [(worker, layer)]
  int failed_worker_ = -1;
  std::exception_ptr failure_;
};

}  // namespace chimera
