// Which operation runs next. What a correct program computes does not depend on it.
#include <algorithm>

#include "graph.h"
#include "machine.h"
#include "race.h"

namespace emulator {

using chimera::concat;

Stream::Stream() : context(race::create()) {}
Stream::~Stream() {
  if (context != nullptr) race::destroy(context);
}

cudaStream_t Machine::add_stream(int device, bool blocking) {
  auto stream = std::make_unique<CUstream_st>();
  stream->device = device;
  stream->blocking = blocking;
  stream->number = static_cast<int>(streams_.size());
  stream->priority = random.next();
  streams_.push_back(std::move(stream));
  return streams_.back().get();
}

Stream& Machine::stream(cudaStream_t handle) {
  if (handle == nullptr || handle == cudaStreamLegacy)
    return *streams_[static_cast<std::size_t>(current_device())];
  for (const auto& stream : streams_)
    if (stream.get() == handle && !stream->destroyed) return *stream;
  refuse(cudaErrorInvalidResourceHandle, "a stream that does not exist or has been destroyed");
}

void Machine::destroy(cudaStream_t handle) { stream(handle).destroyed = true; }

CUevent_st& Machine::event(cudaEvent_t handle) {
  if (!events.contains(handle))
    refuse(cudaErrorInvalidResourceHandle, "an event that does not exist or has been destroyed");
  return *handle;
}

std::vector<Stream*> Machine::streams_of(int device) const {
  std::vector<Stream*> out;
  for (const auto& stream : streams_)
    if (stream->device == device) out.push_back(stream.get());
  std::reverse(out.begin(), out.end());
  return out;
}

void Machine::enqueue(Stream& stream, std::unique_ptr<Operation> operation) {
  if (stream.capture != nullptr) {
    if (operation->clone() == nullptr) {
      stream.capture->invalidate();
      refuse(cudaErrorStreamCaptureUnsupported, operation->what(), " in a stream under capture");
    }
    return stream.capture->add(stream, std::move(operation));
  }
  operation->sequence = ++sequence_;
  race::release(operation.get());
  stream.queue.push_back(std::move(operation));
  changed.notify_all();
}

namespace {

// The default stream and the blocking streams of a device run in the order of enqueuing.
bool in_order(const Stream& a, const Stream& b) {
  return a.device == b.device && a.legacy != b.legacy && (a.legacy || a.blocking) &&
         (b.legacy || b.blocking);
}

}  // namespace

void Machine::blocked_by(const Stream& stream, std::vector<Stream*>& out) const {
  const std::uint64_t mine = stream.queue.front()->sequence;
  for (const auto& other : streams_) {
    if (in_order(stream, *other) && !other->queue.empty() && other->queue.front()->sequence < mine)
      out.push_back(other.get());
  }
}

bool Machine::runnable(const Stream& stream) const {
  if (stream.queue.empty() || stream.busy || !stream.queue.front()->ready()) return false;
  std::vector<Stream*> others;
  blocked_by(stream, others);
  return others.empty();
}

// A stream that can run now and must do so before the first operation of `stream` can.
Stream* Machine::needed(Stream& stream, std::set<Stream*>& seen) const {
  if (stream.queue.empty() || !seen.insert(&stream).second) return nullptr;
  if (runnable(stream)) return &stream;
  std::vector<Stream*> others;
  blocked_by(stream, others);
  stream.queue.front()->blockers(others);
  for (Stream* other : others)
    if (Stream* found = needed(*other, seen)) return found;
  return nullptr;
}

Stream* Machine::choose(const std::vector<Stream*>& towards) {
  if (options.seed == 0) {
    std::set<Stream*> seen;
    for (Stream* stream : towards)
      if (Stream* found = needed(*stream, seen)) return found;
    return nullptr;
  }
  std::vector<Stream*> able;
  for (const auto& stream : streams_)
    if (runnable(*stream)) able.push_back(stream.get());
  if (able.empty()) return nullptr;
  const auto sequence = [](const Stream* s) { return s->queue.front()->sequence; };
  const auto priority = [](const Stream* s) { return s->priority; };
  switch (options.seed) {
    case 1: return *std::ranges::min_element(able, {}, sequence);
    case 2: return able.back();   // the youngest stream first: who does not wait for
    case 3: return able.front();  // another is early with the one or with the other
    default: break;
  }
  if (options.seed % 2 == 0) return *std::ranges::max_element(able, {}, priority);
  return able[random.below(able.size())];
}

// Random priorities that change now and then find an error that needs few unlucky choices with a
// known probability: Burckhardt et al., ASPLOS'10.
void Machine::run_front(Lock& lock, Stream& stream) {
  Operation& operation = *stream.queue.front();
  stream.busy = true;
  running = operation.what();
  const bool on_host = operation.on_host();
  if (on_host) {
    memory.close();
    lock.unlock();
  }
  const auto error = run_as(stream, operation);
  if (on_host) lock.lock();
  stream.busy = false;
  if (error) fail(concat(running, ": ", *error));
  running.clear();
  if (operation.finished()) stream.queue.pop_front();
  if (random.below(8) == 0) stream.priority = random.next();
  changed.notify_all();
}

// Runs the operation as the stream, to the thread sanitizer.
std::optional<std::string> Machine::run_as(Stream& stream, Operation& operation) {
  void* const host = race::current();
  race::enter(stream.context);
  if (!operation.on_host()) race::ignore(true);
  race::acquire(&operation);
  for (const auto& other : streams_)
    if (in_order(stream, *other)) race::acquire(other.get());
  auto error = operation.run(*this, stream);
  race::release(&stream);
  if (!operation.on_host()) race::ignore(false);
  race::enter(host);
  return error;
}

cudaError_t Machine::run_until(Lock& lock, const std::function<bool()>& done,
                               const std::vector<Stream*>& towards) {
  while (!done()) {
    if (failed) return cudaErrorLaunchFailure;
    if (Stream* next = choose(towards))
      run_front(lock, *next);
    else
      wait_for_others(lock, towards);
  }
  return failed ? cudaErrorLaunchFailure : cudaSuccess;
}

// Do these streams wait for each other in a ring that no call of the host can open?
bool Machine::hopeless(const std::vector<Stream*>& towards) const {
  std::set<Stream*> seen;
  std::vector<Stream*> open(towards);
  while (!open.empty()) {
    Stream* stream = open.back();
    open.pop_back();
    if (stream->queue.empty() || !seen.insert(stream).second) continue;
    if (stream->busy || stream->queue.front()->waits_for_host()) return false;
    blocked_by(*stream, open);
    stream->queue.front()->blockers(open);
  }
  return !seen.empty();
}

void Machine::wait_for_others(Lock& lock, const std::vector<Stream*>& towards) {
  memory.close();
  if (hopeless(towards)) return fail("streams wait for each other for ever: " + waiting());
  const std::chrono::duration<double> deadline(options.deadline_seconds);
  if (changed.wait_for(lock, deadline) == std::cv_status::timeout)
    fail(concat("waited ", options.deadline_seconds, " s for other host threads; ", waiting()));
}

std::string Machine::waiting() const {
  std::string text;
  for (const auto& stream : streams_) {
    if (stream->queue.empty()) continue;
    text += concat(text.empty() ? "" : "; ", "stream ", stream->number, " of device ",
                   stream->device, " is at ", stream->queue.front()->what());
  }
  return text.empty() ? "no stream has anything to do" : text;
}

cudaError_t Machine::drain(Lock& lock, const std::vector<Stream*>& streams) {
  for (const Stream* stream : streams) refuse_waiting(*stream);
  const std::uint64_t last = sequence_;
  const auto done = [&] {
    return std::all_of(streams.begin(), streams.end(), [&](const Stream* s) {
      return s->queue.empty() || s->queue.front()->sequence > last;
    });
  };
  const cudaError_t error = run_until(lock, done, streams);
  for (const Stream* stream : streams) race::acquire(stream);
  return error;
}

void Machine::step_towards(Lock& lock, Stream& stream) {
  std::set<Stream*> seen;
  if (Stream* next = needed(stream, seen)) run_front(lock, *next);
}

// After a call that enqueued something, the machine may already be at work.
void Machine::work_ahead(Lock& lock) {
  if (sequence_ == seen_sequence_) return;
  seen_sequence_ = sequence_;
  if (random.below(16) >= eagerness_) return;
  std::uint64_t steps = options.seed == 1 ? ~std::uint64_t{0} : 1 + random.below(4);
  while (steps-- > 0 && !failed) {
    Stream* next = choose({});
    if (next == nullptr) return;
    run_front(lock, *next);
  }
}

}  // namespace emulator
