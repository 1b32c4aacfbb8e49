#pragma once
// The memory of micro-batches in flight on one worker: boundary buffers for what travels,
// activation buffers for what backward needs. Who gets which buffer follows from the program alone.
#include <vector>

#include "chimera/comm/communicator.h"
#include "chimera/device/device.h"
#include "chimera/schedule/instr.h"

namespace chimera {

class BufferPool {
 public:
  // The micro-batches of one block at one stage of one step.
  struct Lease {
    int stage = -1, block = -1;  // -1: nobody lives here
    Index step = 0;
    std::byte* boundary = nullptr;
    std::byte* full = nullptr;  // nullptr: none now
    int live = 0;               // micro-batches that need the activation buffer
    // Messages by place in the block: [2 * kinds * place + (sending? 2) + (gradient? 1)].
    std::vector<Communicator::Request> requests;
  };

  Slots() = default;
  // `span`: micro-batches of one block.
  Slots(Device& device, Index boundaries, Index edge_bytes, Index activations, Index full_bytes,
        int span);

  // Of the instruction's micro-batches: with a boundary buffer from now on.
  Lease& enter(const schedule::Instr& in, Index step);
  Lease& find(const schedule::Instr& in, Index step);
  void acquire_activations(Lease& lease, int count);
  void release_activations(Lease& lease, int count);
  void leave(Lease& lease);
  Communicator::Request& request(Lease& lease, const schedule::Instr& in, bool sending);
  int span() const { return span_; }
  // The most that were in use at once.
  Index most_boundary() const { return most_edges_; }
  Index most_activations() const { return most_fulls_; }

 private:
  int span_ = 1;
  Buffer edges_, fulls_;
  std::vector<Lease> leases_;  // per boundary buffer
  std::vector<std::byte*> free_fulls_;
  Index edges_in_use_ = 0, most_edges_ = 0, fulls_in_use_ = 0, most_fulls_ = 0;
};

}  // namespace chimera
