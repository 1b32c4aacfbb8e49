#pragma once
// Device memory that kernels of one stream use within one op: partial sums, sorted rows.
#include <vector>

#include "chimera/base/types.h"
#include "port.h"

namespace chimera::cuda {

// Only grows, so a step that repeats its shapes allocates nothing. What it had before it grew stays
// allocated: work that is queued or recorded in graphs uses it.
// What an op leaves in it is lost with the next op.
class Scratch {
 public:
  Scratch() = default;
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  // At least `count` numbers, aligned to 256 bytes.
  template <class T>
  T* get(Index count) {
    return static_cast<T*>(bytes(checked_mul(count, Index{sizeof(T)})));
  }
  Index size() const { return size_; }  // of what get() gives, without allocating

 private:
  void* bytes(Index needed);

  std::vector<void*> blocks_;  // the last is in use
  Index size_ = 0;
};

}  // namespace chimera::cuda
