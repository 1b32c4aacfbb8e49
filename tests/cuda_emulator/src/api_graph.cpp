// Stream capture, graphs, their launches.
#include "event_operations.h"
#include "graph.h"
#include "machine.h"

using namespace emulator;

struct CUgraph_st {
  std::shared_ptr<Graph> graph;
};
struct CUgraphExec_st {
  std::shared_ptr<Graph> graph;
  std::vector<cudaStream_t> streams;  // of its own, by lane
};

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return api_call([&](Machine& m, auto&) {
    Stream& s = m.stream(stream);
    if (s.legacy)
      refuse(cudaErrorStreamCaptureUnsupported, "the default stream cannot be captured");
    if (s.capture != nullptr) refuse(cudaErrorIllegalState, "the stream is under capture already");
    s.capture = std::make_shared<Graph>(s, mode);
    std::erase_if(m.captures, [](const auto& graph) { return !graph->active(); });
    m.captures.push_back(s.capture);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  *graph = nullptr;
  return api_call([&](Machine& m, auto&) {
    Stream& s = m.stream(stream);
    const std::shared_ptr<Graph> captured = s.capture;
    if (captured == nullptr || &captured->origin() != &s)
      refuse(cudaErrorIllegalState, "the stream did not begin a capture");
    const bool joined = captured->end();
    if (captured->invalid())
      refuse(cudaErrorStreamCaptureInvalidated, "the capture was made invalid by a call before");
    if (!joined)
      refuse(cudaErrorStreamCaptureUnjoined,
             "the capture ends while another stream's work is not waited for by the first");
    *graph = new CUgraph_st{captured};
    return cudaSuccess;
  });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  return api_call([&](Machine& m, auto&) {
    const auto& capture = m.stream(stream).capture;
    *status = capture == nullptr   ? cudaStreamCaptureStatusNone
              : capture->invalid() ? cudaStreamCaptureStatusInvalidated
                                   : cudaStreamCaptureStatusActive;
    return cudaSuccess;
  });
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  return api_call([&](Machine& m, auto&) {
    *exec = new CUgraphExec_st{graph->graph, {}};
    for (std::size_t lane = 0; lane < graph->graph->lanes().size(); ++lane)
      (*exec)->streams.push_back(m.add_stream(graph->graph->device(lane), /*blocking=*/false));
    return cudaSuccess;
  });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  return api_call([&](Machine& m, auto&) {
    Stream& s = m.stream(stream);
    if (s.capture != nullptr)
      refuse(cudaErrorNotSupported, "the emulator knows no graphs inside of graphs");
    const Graph& graph = *exec->graph;
    const auto recorded = [&](Stream& in, const std::shared_ptr<Record>& record) {
      record->stream = &in;
      m.enqueue(in, std::make_unique<RecordOperation>(record));
    };
    const auto waits = [&](Stream& in, const std::shared_ptr<Record>& record) {
      m.enqueue(in, std::make_unique<WaitOperation>(record));
    };
    std::vector<std::shared_ptr<Record>> records(static_cast<std::size_t>(graph.records()) + 2);
    for (auto& record : records) record = std::make_shared<Record>();
    const auto &begin = records[records.size() - 2], &end = records.back();
    recorded(s, begin);
    for (std::size_t lane = 0; lane < exec->streams.size(); ++lane) {
      Stream& own = *exec->streams[lane];
      waits(own, begin);
      for (const Graph::Item& item : graph.lanes()[lane]) {
        if (item.operation != nullptr) m.enqueue(own, item.operation->clone());
        if (item.record >= 0) recorded(own, records[static_cast<std::size_t>(item.record)]);
        if (item.wait >= 0) waits(own, records[static_cast<std::size_t>(item.wait)]);
      }
    }
    recorded(*exec->streams[0], end);
    waits(s, end);
    return cudaSuccess;
  });
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  return api_call([&](Machine& m, auto&) {
    for (cudaStream_t stream : exec->streams) m.destroy(stream);
    race::ignore(true);  // kernels of any stream have read the arguments
    delete exec;
    race::ignore(false);
    return cudaSuccess;
  });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return api_call([&](Machine&, auto&) {
    race::ignore(true);
    delete graph;
    race::ignore(false);
    return cudaSuccess;
  });
}
