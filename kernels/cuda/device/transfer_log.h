#pragma once
// Transfers that a GPU has been given and that may not have ended: by number, in order. What a
// watchdog looks at while the worker goes on.
#include <cuda_runtime.h>

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "chimera/base/types.h"

namespace chimera {

// A CUDA event of the current device.
class CudaEvent {
 public:
  CudaEvent();
  ~CudaEvent();
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;
  void record(cudaStream_t stream);
  void hold(cudaStream_t stream) const;  // what it is given from now on comes after the event
  bool reached() const;

 private:
  cudaEvent_t event_ = nullptr;
};

struct Transfer {
  Index group = 0;  // of those that begin and end together
  int peer = 0;
  bool sends = false;
  bool enqueued = false, waited_for = false;
  std::byte* data = nullptr;
  Index bytes = 0;
  std::string what;  // of the wait
  std::unique_ptr<CudaEvent> done;
};

// All but look() are for the endpoint's thread; look() may run beside them.
class TransferLog {
 public:
  // Numbers begin with 1. Valid until the next begin().
  Index begin(int peer, bool sends, std::byte* data, Index bytes);
  Transfer& at(Index number) { return slots_[static_cast<std::size_t>(number) % slots_.size()]; }
  // One that is not waited for yet; throws where there is none.
  Transfer& open(Index number, int rank);
  void enqueued(Index number, Index group);
  void waited_for(Index number, std::string_view what);
  Index next() const { return next_; }
  bool any_open() const { return open_ > 0; }

  // Of what has been waited for, the first that has not ended, and whom it needs: "worker 1", or
  // "worker 1, 2 or 3". Number 0: there is none.
  struct Unfinished {
    Index number = 0;
    std::string peers, what;
  };
  Unfinished look();

 private:
  void forget_ended();
  bool ended(const Transfer& t) const { return t.waited_for && t.enqueued && t.done->reached(); }

  std::mutex mutex_;
  std::vector<Transfer> slots_;
  Index oldest_ = 1, next_ = 1;
  Index open_ = 0;
};

}  // namespace chimera
