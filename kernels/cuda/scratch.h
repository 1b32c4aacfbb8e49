#pragma once
// Device memory that kernels of one stream use within one op: partial sums, sorted rows.
#include "chimera/base/types.h"
#include "port.h"

namespace chimera::cuda {

// Only grows, so a step that repeats its shapes allocates nothing; growing waits for the stream.
// What an op leaves in it is lost with the next op.
class Scratch {
 public:
  explicit Scratch(cudaStream_t stream) : stream_(stream) {}
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  // At least `count` numbers, aligned to 256 bytes.
  template <class T>
  T* get(Index count) {
    return static_cast<T*>(bytes(checked_mul(count, Index{sizeof(T)})));
  }
  Index size() const { return size_; }

 private:
  void* bytes(Index needed);

  cudaStream_t stream_;
  void* memory_ = nullptr;
  Index size_ = 0;
};

}  // namespace chimera::cuda
