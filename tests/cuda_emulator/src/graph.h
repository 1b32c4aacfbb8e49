#pragma once
// CUDA graphs: what streams would have been told between cudaStreamBeginCapture and EndCapture. A
// launch gives it to streams of the graph's own, so its parallel parts run in any order that it
// allows.
#include <thread>

#include "stream.h"

namespace emulator {

class Graph {
 public:
  // An operation, or a point that others wait for, or a wait for such a point.
  struct Item {
    std::unique_ptr<Operation> operation;
    int record = -1, wait = -1;
  };

  Graph(Stream& origin, cudaStreamCaptureMode mode);

  bool active() const { return active_; }
  cudaStreamCaptureMode mode() const { return mode_; }
  std::thread::id thread() const { return thread_; }
  bool invalid() const { return invalid_; }
  void invalidate() { invalid_ = true; }
  Stream& origin() const { return *streams_[0]; }
  int device(std::size_t lane) const { return streams_[lane]->device; }
  const std::vector<std::vector<Item>>& lanes() const { return lanes_; }
  int records() const { return static_cast<int>(known_at_record_.size()); }

  void add(const Stream& stream, std::unique_ptr<Operation> operation);
  int record(const Stream& stream);
  // The stream joins the capture, if it has not.
  void wait(Stream& stream, int record);
  // Ends the capture of all streams; false where the origin does not wait for all that was
  // captured.
  bool end();

 private:
  void join(Stream& stream);

  std::vector<Stream*> streams_;          // by lane
  std::vector<std::vector<Item>> lanes_;  // what each stream was told
  // How many items of each lane come before the end of a lane, and before a record.
  std::vector<std::vector<std::size_t>> known_, known_at_record_;
  cudaStreamCaptureMode mode_;
  std::thread::id thread_;
  bool active_ = true, invalid_ = false;
};

// For a stream under capture: notes the call and returns true.
bool captured_record(Stream& stream, CUevent_st& event);
bool captured_wait(Stream& stream, const CUevent_st& event);
// Refuse what cannot be done during a capture, which is then invalid.
void refuse_captured(const CUevent_st& event);
void refuse_waiting(const Stream& stream);

}  // namespace emulator
