#include "graphs.h"

#include "launch.h"

namespace chimera::cuda {

Graphs::~Graphs() {
  for (const auto& [key, graph] : graphs_)
    if (graph != nullptr) cudaGraphExecDestroy(graph);
}

void Graphs::run(const Device::ReplayKey& key, const std::function<void()>& body) {
  const auto found = graphs_.find(key);
  if (found == graphs_.end()) {
    if (graphs_.size() < kMost) graphs_.emplace(key, nullptr);
    return body();
  }
  if (found->second == nullptr) found->second = record(body);
  check_cuda(cudaGraphLaunch(found->second, stream_), "launching recorded work");
}

// Other threads go on with their own streams and allocations meanwhile.
cudaGraphExec_t Graphs::record(const std::function<void()>& body) {
  check_cuda(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal),
             "beginning to record work");
  cudaGraph_t graph = nullptr;
  try {
    body();
  } catch (...) {
    cudaStreamEndCapture(stream_, &graph);
    if (graph != nullptr) cudaGraphDestroy(graph);
    cudaGetLastError();
    throw;
  }
  check_cuda(cudaStreamEndCapture(stream_, &graph), "recording work");
  cudaGraphExec_t out = nullptr;
  const cudaError_t status = cudaGraphInstantiate(&out, graph, 0);
  cudaGraphDestroy(graph);
  check_cuda(status, "making recorded work ready to launch");
  return out;
}

}  // namespace chimera::cuda
