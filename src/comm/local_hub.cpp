#include "local_hub.h"

#include <algorithm>
#include <cstring>

namespace chimera {
namespace {

constexpr int kPostsPerWorker = 64;  // to begin with; more are made when more are outstanding

std::chrono::steady_clock::duration duration_of(double seconds) {
  ENSURE(seconds > 0, "a deadline of ", seconds,
         " s is none; set parallel.timeout_seconds above 0");
  constexpr double kThreeYears = 1e8;
  return std::chrono::duration_cast<std::chrono::steady_clock::duration>(
      std::chrono::duration<double>(std::min(seconds, kThreeYears)));
}

std::exception_ptr error_of(const std::string& message) {
  return std::make_exception_ptr(Error(message));
}

}  // namespace

LocalHub::LocalHub(int workers, double deadline_seconds)
    : deadline_(duration_of(deadline_seconds)),
      workers_(workers),
      links_(static_cast<std::size_t>(Index{kLayers} * workers * workers)),
      endpoints_(static_cast<std::size_t>(Index{workers} * kLayers)) {
  posts_.reserve(static_cast<std::size_t>(Index{workers} * kPostsPerWorker));
}

LocalHub::Link& LocalHub::link(int layer, int source, int destination, int channel) {
  std::vector<Link>& channels = links_[static_cast<std::size_t>(
      (Index{layer} * workers() + source) * workers() + destination)];
  if (channels.empty()) channels.resize(Communicator::kTags);
  return channels[static_cast<std::size_t>(channel)];
}

int LocalHub::take_post() {
  if (free_ < 0) {
    posts_.emplace_back();
    return static_cast<int>(posts_.size()) - 1;
  }
  const int index = free_;
  free_ = at(index).next;
  return index;
}

void LocalHub::release(int index) {
  Post& post = at(index);
  --state_of(post.owner).requests;
  post.state = State::Free;
  ++post.generation;
  post.next = free_;
  free_ = index;
}

int LocalHub::find(Endpoint endpoint, Communicator::Request request) {
  const Index index = (request & 0xffffffff) - 1;
  ENSURE(index >= 0 && index < static_cast<Index>(posts_.size()), "there is no request ", request);
  const Post& post = at(static_cast<int>(index));
  ENSURE(post.state != State::Free && post.owner == endpoint && post.generation == request >> 32,
         "worker ", endpoint.worker, " waits for request ", request,
         ", which has ended or is not its own");
  return static_cast<int>(index);
}

Communicator::Request LocalHub::post(Endpoint endpoint, int peer, int channel, Side side,
                                     std::byte* data, Index bytes, Parcel* parcel) {
  ENSURE(peer >= 0 && peer < workers(), "there is no worker ", peer, ": they are 0 to ",
         workers() - 1);
  ENSURE(channel >= 0 && channel < Communicator::kTags, "there is no channel ", channel);
  Lock lock(mutex_);
  if (failed_worker_ >= 0) leave(lock, endpoint);
  const int index = take_post();
  const std::uint32_t generation = at(index).generation & 0x7fffffff;
  at(index) = Post{State::Posted, side, endpoint, peer, data, bytes, parcel, generation, -1};
  ++state_of(endpoint).requests;

  const bool sends = side == Side::Send;
  const auto [worker, layer] = endpoint;
  Link& queue = sends ? link(layer, worker, peer, channel) : link(layer, peer, worker, channel);
  if (queue.first >= 0 && at(queue.first).side != side) {
    const int partner = queue.first;
    queue.first = at(partner).next;
    const int sent = sends ? index : partner, received = sends ? partner : index;
    if (const std::string error = mismatch(sent, received, channel); !error.empty()) {
      record_failure(at(received).owner.worker, error_of(error));
      leave(lock, endpoint);
    }
    copy(lock, endpoint, sent, received);
  } else {
    (queue.first < 0 ? queue.first : at(queue.last).next) = index;
    queue.last = index;
  }
  return Index{generation} << 32 | (index + 1);
}

// Empty where the two ends fit together.
std::string LocalHub::mismatch(int sent, int received, int channel) {
  const Post &from = at(sent), &to = at(received);
  const bool one_sided = (from.parcel == nullptr) != (to.parcel == nullptr);
  if (from.bytes == to.bytes && !one_sided) return {};
  const std::string name = concat("the message from worker ", from.owner.worker, " to worker ",
                                  to.owner.worker, " on channel ", channel);
  if (one_sided)
    return concat(name, " is of a device's memory at one end and of the host's at the other");
  return concat(name, " has ", from.bytes, " bytes, its receiver expects ", to.bytes);
}

void LocalHub::copy(Lock& lock, Endpoint endpoint, int sent, int received) {
  for (const int index : {sent, received}) {
    at(index).state = State::Copying;
    ++state_of(at(index).owner).copying;
  }
  const Post from = at(sent), to = at(received);
  std::exception_ptr error;
  lock.unlock();
  try {
    if (from.parcel != nullptr)
      from.parcel->move_to(*to.parcel, from.bytes);
    else if (from.bytes > 0)
      std::memcpy(to.data, from.data, static_cast<std::size_t>(from.bytes));
  } catch (...) {
    error = std::current_exception();
  }
  lock.lock();
  for (const int index : {sent, received}) {
    at(index).state = State::Done;
    EndpointState& owner = state_of(at(index).owner);
    --owner.copying;
    owner.changed.notify_all();
  }
  if (!error) return;
  record_failure(endpoint.worker, error);
  leave(lock, endpoint);
}

void LocalHub::throw_if_failed(Endpoint endpoint) {
  Lock lock(mutex_);
  if (failed_worker_ >= 0) leave(lock, endpoint);
}

void LocalHub::wait(Endpoint endpoint, Communicator::Request request, std::string_view what,
                    double timeout_scale) {
  if (request == 0) return;
  const double seconds = std::chrono::duration<double>(deadline_).count() * timeout_scale;
  Lock lock(mutex_);
  const int index = find(endpoint, request);
  EndpointState& me = state_of(endpoint);
  me.waits_for = at(index).peer;
  me.what = what;
  const auto orphaned = [&] {
    return at(index).state == State::Posted && state_of({at(index).peer, endpoint.layer}).finished;
  };
  // In slices: while the process was stopped (Ctrl-Z), at most one of them has passed.
  auto left = duration_of(seconds);
  bool in_time = false;
  while (!in_time && left > left.zero()) {
    const auto slice = std::min(left, duration_of(0.25));
    in_time = me.changed.wait_for(lock, slice, [&] {
      return at(index).state == State::Done || failed_worker_ >= 0 || orphaned();
    });
    left -= slice;
  }
  if (failed_worker_ < 0 && at(index).state != State::Done) {
    record_failure(endpoint.worker,
                   error_of(in_time ? concat("worker ", at(index).peer,
                                             " has finished, but its part of ", what, " is missing")
                                    : waited_too_long(at(index), what, seconds)));
  }
  me.waits_for = -1;
  if (failed_worker_ >= 0) leave(lock, endpoint);
  release(index);
}

// Follows the waits to the worker that keeps the others waiting. A second endpoint that nobody
// waits at has not begun what it is waited for in: then the first one's wait is the reason.
std::string LocalHub::waited_too_long(const Post& post, std::string_view what, double seconds) {
  std::string message = concat("waited ", seconds, " s for worker ", post.peer, " in ", what);
  Endpoint at{post.peer, post.owner.layer};
  std::vector<bool> named(static_cast<std::size_t>(workers()));
  named[static_cast<std::size_t>(post.owner.worker)] = true;
  while (!named[static_cast<std::size_t>(at.worker)]) {
    named[static_cast<std::size_t>(at.worker)] = true;
    if (state_of(at).waits_for < 0) at.layer = 0;
    const EndpointState& state = state_of(at);
    if (state.waits_for < 0) {
      message += concat("; worker ", at.worker, " is busy elsewhere");
      break;
    }
    message +=
        concat("; worker ", at.worker, " waits for worker ", state.waits_for, " in ", state.what);
    at.worker = state.waits_for;
  }
  return message + " (the deadline is parallel.timeout_seconds)";
}

void LocalHub::wake_all() {
  for (EndpointState& state : endpoints_) state.changed.notify_all();
}

void LocalHub::record_failure(int worker, std::exception_ptr error) {
  if (failed_worker_ < 0) failed_worker_ = worker;
  if (failed_worker_ == worker && !failure_) failure_ = std::move(error);
  wake_all();
}

// Returns when no thread copies from or to this endpoint's buffers; after a failure none begins to.
void LocalHub::drain(Lock& lock, Endpoint endpoint) {
  EndpointState& state = state_of(endpoint);
  state.changed.wait(lock, [&] { return state.copying == 0; });
}

void LocalHub::leave(Lock& lock, Endpoint endpoint) {
  drain(lock, endpoint);
  if (failed_worker_ == endpoint.worker && failure_) std::rethrow_exception(failure_);
  throw Aborted(
      concat("worker ", endpoint.worker, " ends because worker ", failed_worker_, " failed"));
}

void LocalHub::finish(int worker) {
  Lock lock(mutex_);
  if (failed_worker_ >= 0) return;
  for (int layer = 0; layer < kLayers; ++layer) {
    EndpointState& state = state_of({worker, layer});
    ENSURE(state.requests == 0, "it ended with ", state.requests,
           " messages that it never waited for");
    state.finished = true;
  }
  wake_all();
}

void LocalHub::fail(int worker, std::exception_ptr error) noexcept {
  bool follows = false;
  try {
    if (error) std::rethrow_exception(error);
  } catch (const Aborted&) {
    follows = true;
  } catch (...) {
  }
  Lock lock(mutex_);
  if (failed_worker_ < 0 || !follows) record_failure(worker, std::move(error));
}

void LocalHub::abandon(Endpoint endpoint) noexcept {
  Lock lock(mutex_);
  if (state_of(endpoint).requests == 0) return;
  if (failed_worker_ < 0) record_failure(endpoint.worker, nullptr);
  drain(lock, endpoint);
}

void LocalHub::rethrow_failure() {
  Lock lock(mutex_);
  if (failed_worker_ < 0) return;
  ENSURE(failure_, "worker ", failed_worker_,
         " abandoned its messages or background jobs, then ended without an error");
  if (workers() == 1) std::rethrow_exception(failure_);
  const std::string worker = concat("worker ", failed_worker_, ": ");
  try {
    std::rethrow_exception(failure_);
  } catch (const UsageError& error) {
    throw UsageError(worker + error.what());
  } catch (const Error& error) {
    throw Error(worker + error.what(), error.code());
  } catch (const std::exception& error) {
    throw Error(worker + error.what());
  }
}

}  // namespace chimera
