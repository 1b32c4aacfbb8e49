#pragma once
// Streams are queues of operations; events are points in them. Operations run inside later host
// calls, in any order that streams and events allow.
#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "emulator/runtime_api.h"

namespace emulator {

class BlockRunner;
class Graph;
class Machine;
struct Stream;

// Something that waits in a stream for its turn.
class Operation {
 public:
  virtual ~Operation() = default;
  // May it run, once it is the first of its stream? If not, `blockers` gives the streams that must
  // go on first; none: it waits for another host thread.
  virtual bool ready() const { return true; }
  virtual void blockers(std::vector<Stream*>&) const {}
  // Runs without the machine's lock, device memory closed.
  virtual bool on_host() const { return false; }
  // Returns what went wrong.
  virtual std::optional<std::string> run(Machine& machine, Stream& stream) = 0;
  virtual std::string what() const = 0;
  // After run(): false while it is under way and waits for others. It stays first until it has
  // finished.
  virtual bool finished() const { return true; }
  // The same again, for a launch of a graph; null: not to be captured.
  virtual std::unique_ptr<Operation> clone() const { return nullptr; }
  // Not ready before some host thread calls something.
  virtual bool waits_for_host() const { return false; }

  std::uint64_t sequence = 0;  // of its enqueuing, over all streams
};

// One recording of an event.
struct Record {
  bool done = false;
  Stream* stream = nullptr;
  std::chrono::steady_clock::time_point time;
};

struct Stream {
  int device = 0;
  bool legacy = false;     // the default stream
  bool blocking = true;    // in order with the default stream
  bool destroyed = false;  // its operations still run
  bool busy = false;       // a host function of it runs, without the lock
  int number = 0;          // for messages
  std::uint64_t priority = 0;
  std::shared_ptr<Graph> capture;  // what it is told goes there
  std::size_t lane = 0;            // its place there
  std::deque<std::unique_ptr<Operation>> queue;
  void* context = nullptr;  // race.h
  std::unique_ptr<BlockRunner>
      blocks;  // its own only there: contexts and stacks must not be shared
  Stream();
  ~Stream();
};

}  // namespace emulator

struct CUstream_st : emulator::Stream {};
struct CUevent_st {
  int device = 0;
  unsigned flags = 0;
  std::shared_ptr<emulator::Record> record;  // the latest; null: never recorded
  std::shared_ptr<emulator::Graph> graph;    // or recorded into this graph, as point `mark`
  int mark = -1;
};
