#pragma once
// Work of one stream that repeats, launched as CUDA graphs: one launch in place of hundreds.
#include <map>

#include "chimera/device/device.h"
#include "port.h"

namespace chimera::cuda {

// Contract: Device::replay. The first call of a key is not recorded: it may allocate what later
// ones find (the kernels' scratch, algorithms of products).
class Graphs {
 public:
  explicit Graphs(cudaStream_t stream) : stream_(stream) {}
  ~Graphs();
  Graphs(const Graphs&) = delete;
  Graphs& operator=(const Graphs&) = delete;

  void run(const Device::ReplayKey& key, const std::function<void()>& body);

 private:
  static constexpr std::size_t kMost = 4096;  // further keys run as they are
  cudaGraphExec_t record(const std::function<void()>& body);

  cudaStream_t stream_;
  std::map<Device::ReplayKey, cudaGraphExec_t> graphs_;  // null: ran once
};

}  // namespace chimera::cuda
