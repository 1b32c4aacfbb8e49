#pragma once
// The memory of micro-batches in flight on one worker: boundary buffers for what travels,
// activation buffers for what backward needs. Who gets which buffer follows from the program alone
// (schedule/instr.h says when).
#include <vector>

#include "chimera/comm/communicator.h"
#include "chimera/device/device.h"
#include "chimera/schedule/instr.h"

namespace chimera {

class BufferPool {
 public:
  // What the micro-batches of one block at one stage of one step hold.
  struct Lease {
    int stage = -1, block = -1;  // -1: nobody's
    Index step = 0;
    std::byte* boundary = nullptr;
    std::byte* activations = nullptr;  // nullptr: none now
    int live = 0;                      // micro-batches that need the activation buffer
    // Messages by place in the block: [2 * kinds * place + (sending? 2) + (gradient? 1)].
    std::vector<Communicator::Request> requests;
  };
  struct Size {
    Index count = 0, bytes = 0;  // of one
  };

  BufferPool() = default;
  // `span`: micro-batches of one block.
  BufferPool(Device& device, Size boundary, Size activations, int span);

  // Of the instruction's micro-batches: with a boundary buffer from now on.
  Lease& acquire(const schedule::Instr& in, Index step);
  Lease& find(const schedule::Instr& in, Index step);
  void acquire_activations(Lease& lease, int count);
  void release_activations(Lease& lease, int count);
  void release(Lease& lease);
  Communicator::Request& request(Lease& lease, const schedule::Instr& in, bool sending);
  int span() const { return span_; }
  // The most that were in use at once.
  Index most_boundary() const { return most_boundary_; }
  Index most_activations() const { return most_activations_; }

 private:
  int span_ = 1;
  Buffer boundary_, activations_;
  std::vector<Lease> leases_;  // per boundary buffer
  std::vector<std::byte*> free_activations_;
  Index boundary_in_use_ = 0, most_boundary_ = 0, activations_in_use_ = 0, most_activations_ = 0;
};

}  // namespace chimera
