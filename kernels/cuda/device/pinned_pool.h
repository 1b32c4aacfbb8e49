#pragma once
// Page-locked host memory for messages, used again and again.
#include <memory>
#include <vector>

#include "chimera/device/cuda_device.h"

namespace chimera {

struct Pinned {
  std::byte* memory = nullptr;
  Index bytes = 0;              // at least what was asked for
  std::unique_ptr<Event> free;  // the GPU no longer reads it
};

class PinnedPool {
 public:
  explicit PinnedPool(CudaDevice& device) : device_(device) {}
  // Everything taken must have been given back or be used no more, by the GPU either.
  ~PinnedPool();
  PinnedPool(const PinnedPool&) = delete;

  // Allocates only where nothing that fits is idle; otherwise it may wait for the GPU to be done
  // with what it gives. Valid until the pool goes.
  Pinned* take(Index bytes);
  // `read_by`: the stream that may still read it; null: none.
  void give_back(Pinned* pinned, const Stream* read_by);

 private:
  CudaDevice& device_;
  std::vector<std::unique_ptr<Pinned>> all_;
  std::vector<Pinned*> idle_;  // the one idle for longest first
};

}  // namespace chimera
