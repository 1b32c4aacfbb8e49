// Streams, events, host functions.
#include "event_operations.h"
#include "graph.h"
#include "machine.h"
#include "race.h"

using namespace emulator;

namespace {

class HostOperation final : public Operation {
 public:
  HostOperation(void (*function)(void*), void* data) : function_(function), data_(data) {}
  bool on_host() const override { return true; }
  std::optional<std::string> run(Machine&, Stream&) override {
    function_(data_);
    return std::nullopt;
  }
  std::string what() const override { return "a host function"; }
  std::unique_ptr<Operation> clone() const override {
    return std::make_unique<HostOperation>(*this);
  }

 private:
  void (*function_)(void*);
  void* data_;
};

cudaError_t query(Machine& m, Machine::Lock& lock, Stream* stream,
                  const std::function<bool()>& done, const void* token) {
  // A loop of queries must come to its end.
  if (!done()) m.step_towards(lock, *stream);
  if (!done()) return cudaErrorNotReady;
  race::acquire(token);
  return cudaSuccess;
}

}  // namespace

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return api_call([&](Machine& m, auto&) {
    if (flags > cudaStreamNonBlocking) refuse(cudaErrorInvalidValue, "stream flags ", flags);
    *stream = m.add_stream(current_device(), flags != cudaStreamNonBlocking);
    return cudaSuccess;
  });
}
cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithFlags(stream, cudaStreamDefault);
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) {
  return cudaStreamCreateWithFlags(stream, flags);
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return api_call([&](Machine& m, auto&) {
    if (m.stream(stream).legacy)
      refuse(cudaErrorInvalidResourceHandle, "the default stream cannot be destroyed");
    m.destroy(stream);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return api_call(
      [&](Machine& m, Machine::Lock& lock) { return m.drain(lock, {&m.stream(stream)}); });
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return api_call([&](Machine& m, Machine::Lock& lock) {
    Stream& s = m.stream(stream);
    return query(
        m, lock, &s, [&] { return s.queue.empty(); }, &s);
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  return api_call([&](Machine& m, auto&) {
    Stream& s = m.stream(stream);
    const CUevent_st& e = m.event(event);
    if (captured_wait(s, e)) return cudaSuccess;
    // An event that was never recorded is no reason to wait, says CUDA.
    if (e.record != nullptr) m.enqueue(s, std::make_unique<WaitOperation>(e.record));
    return cudaSuccess;
  });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, void (*function)(void*), void* data) {
  return api_call([&](Machine& m, auto&) {
    m.enqueue(m.stream(stream), std::make_unique<HostOperation>(function, data));
    return cudaSuccess;
  });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return api_call([&](Machine& m, auto&) {
    *event = new CUevent_st{current_device(), flags, nullptr, nullptr};
    m.events.insert(*event);
    return cudaSuccess;
  });
}
cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return api_call([&](Machine& m, auto&) {
    delete &m.event(event);
    m.events.erase(event);
    return cudaSuccess;
  });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return api_call([&](Machine& m, auto&) {
    Stream& s = m.stream(stream);
    CUevent_st& e = m.event(event);
    if (e.device != s.device)
      refuse(cudaErrorInvalidResourceHandle, "an event of device ", e.device,
             " recorded in a stream of device ", s.device);
    if (captured_record(s, e)) return cudaSuccess;
    e.record = std::make_shared<Record>();
    e.record->stream = &s;
    m.enqueue(s, std::make_unique<RecordOperation>(e.record));
    return cudaSuccess;
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return api_call([&](Machine& m, Machine::Lock& lock) {
    refuse_captured(m.event(event));
    const auto record = m.event(event).record;
    if (record == nullptr) return cudaSuccess;
    const cudaError_t error = m.run_until(lock, [&] { return record->done; }, {record->stream});
    race::acquire(record.get());
    return error;
  });
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  return api_call([&](Machine& m, Machine::Lock& lock) {
    refuse_captured(m.event(event));
    const auto record = m.event(event).record;
    if (record == nullptr) return cudaSuccess;
    return query(
        m, lock, record->stream, [&] { return record->done; }, record.get());
  });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  return api_call([&](Machine& m, auto&) {
    const CUevent_st &a = m.event(start), &b = m.event(end);
    if ((a.flags | b.flags) & cudaEventDisableTiming || a.record == nullptr || b.record == nullptr)
      refuse(cudaErrorInvalidResourceHandle, "events without times, or not recorded");
    if (!a.record->done || !b.record->done) return cudaErrorNotReady;
    const auto elapsed = b.record->time - a.record->time;
    *milliseconds = std::chrono::duration<float, std::milli>(elapsed).count();
    return cudaSuccess;
  });
}
