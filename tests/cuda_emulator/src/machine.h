#pragma once
// The one emulated machine of the process: devices, their memory, the queues, and what went wrong.
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <set>

#include "block_runner.h"
#include "emulator/control.h"
#include "memory.h"
#include "stream.h"

struct ncclComm;

namespace emulator {

class Clique;

// A call that is refused: the error code for the caller, the text for the report.
struct Refusal {
  cudaError_t error;
  std::string text;
};
template <class... Parts>
[[noreturn]] void refuse(cudaError_t error, const Parts&... parts);

struct FunctionSettings {
  int dynamic_shared = 48 << 10;
};

class Machine {
 public:
  explicit Machine(const Options& options);
  ~Machine();

  using Lock = std::unique_lock<std::mutex>;

  // Streams. `handle` as the caller gave it: 0 and 1 are the default stream of the current device.
  Stream& stream(cudaStream_t handle);
  cudaStream_t add_stream(int device, bool blocking);
  void destroy(cudaStream_t handle);
  CUevent_st& event(cudaEvent_t handle);

  void enqueue(Stream& stream, std::unique_ptr<Operation> operation);
  // Runs operations until done(); `towards` are the streams that must go on for it (empty: all).
  cudaError_t run_until(Lock& lock, const std::function<bool()>& done,
                        const std::vector<Stream*>& towards);
  cudaError_t drain(Lock& lock, const std::vector<Stream*>& streams);
  // One operation that brings `stream` forward, if any can run.
  void step_towards(Lock& lock, Stream& stream);
  void work_ahead(Lock& lock);
  std::vector<Stream*> streams_of(int device) const;

  void report(const std::string& text);
  // The device is lost: `text` is why. Every later call fails.
  void fail(const std::string& text);

  Options options;
  std::mutex mutex;
  std::condition_variable changed;  // an operation was enqueued or has run
  DeviceMemory memory;
  BlockRunner blocks;
  Random random;
  Statistics counts;
  std::set<CUevent_st*> events;
  std::map<const void*, FunctionSettings> functions;
  std::vector<std::uint64_t> peers;  // of each device: bits of those whose memory it can touch
  std::vector<std::shared_ptr<Graph>> captures;  // some may have ended
  std::uint64_t nccl_ids = 0;
  std::map<std::uint64_t, std::shared_ptr<Clique>> cliques;  // by unique id
  std::map<ncclComm*, std::shared_ptr<ncclComm>> communicators;
  std::optional<std::string> failed;
  std::string last_report;
  int reports = 0;
  std::string running;  // the operation that runs now, for faults

 private:
  bool runnable(const Stream& stream) const;
  void blocked_by(const Stream& stream, std::vector<Stream*>& out) const;
  Stream* needed(Stream& stream, std::set<Stream*>& seen) const;
  Stream* choose(const std::vector<Stream*>& towards);
  void run_front(Lock& lock, Stream& stream);
  std::optional<std::string> run_as(Stream& stream, Operation& operation);
  std::string waiting() const;
  bool hopeless(const std::vector<Stream*>& towards) const;
  void wait_for_others(Lock& lock, const std::vector<Stream*>& towards);

  std::vector<std::unique_ptr<CUstream_st>> streams_;
  std::uint64_t sequence_ = 0, seen_sequence_ = 0;
  unsigned eagerness_ = 0;  // of 16 enqueuings, this many run something
};

Machine& machine();
int& current_device();  // of the calling thread

// Runs body(machine, lock) -> cudaError_t under the lock, turns a Refusal into its report and code,
// closes device memory, and remembers the error for cudaGetLastError.
// A call that the calling thread must not make during a capture (its own, or any "global" one).
void refuse_during_capture(const Machine& m, const char* call);
cudaError_t api_call(const std::function<cudaError_t(Machine&, Machine::Lock&)>& body);

}  // namespace emulator

#include "chimera/base/check.h"

template <class... Parts>
void emulator::refuse(cudaError_t error, const Parts&... parts) {
  throw Refusal{error, chimera::concat(parts...)};
}
