#include "graph.h"

#include <algorithm>

#include "machine.h"

namespace emulator {

Graph::Graph(Stream& origin, cudaStreamCaptureMode mode)
    : mode_(mode), thread_(std::this_thread::get_id()) {
  join(origin);
}

void Graph::join(Stream& stream) {
  stream.lane = streams_.size();
  streams_.push_back(&stream);
  lanes_.emplace_back();
  known_.emplace_back();
}

void Graph::add(const Stream& stream, std::unique_ptr<Operation> operation) {
  lanes_[stream.lane].push_back({std::move(operation)});
}

int Graph::record(const Stream& stream) {
  auto known = known_[stream.lane];
  known.resize(std::max(known.size(), stream.lane + 1));
  known[stream.lane] = lanes_[stream.lane].size();
  known_at_record_.push_back(known);
  lanes_[stream.lane].push_back({nullptr, records() - 1});
  return records() - 1;
}

void Graph::wait(Stream& stream, int record) {
  if (stream.capture == nullptr) join(stream);
  auto& known = known_[stream.lane];
  const auto& theirs = known_at_record_[static_cast<std::size_t>(record)];
  known.resize(std::max(known.size(), theirs.size()));
  for (std::size_t i = 0; i < theirs.size(); ++i) known[i] = std::max(known[i], theirs[i]);
  lanes_[stream.lane].push_back({nullptr, -1, record});
}

bool Graph::end() {
  active_ = false;
  for (Stream* stream : streams_) stream->capture = nullptr;
  for (std::size_t lane = 1; lane < lanes_.size(); ++lane) {
    std::size_t work = 0;  // up to its last operation
    for (std::size_t i = 0; i < lanes_[lane].size(); ++i)
      if (lanes_[lane][i].operation != nullptr) work = i + 1;
    if (work > 0 && (known_[0].size() <= lane || known_[0][lane] < work)) return false;
  }
  return true;
}

bool captured_record(Stream& stream, CUevent_st& event) {
  event.graph = stream.capture;
  if (stream.capture == nullptr) return false;
  event.record = nullptr;
  event.mark = stream.capture->record(stream);
  return true;
}

bool captured_wait(Stream& stream, const CUevent_st& event) {
  if (event.graph != nullptr && !event.graph->active())
    refuse(cudaErrorCapturedEvent, "a wait for an event that was recorded into a graph");
  if (event.graph == nullptr && stream.capture != nullptr) {
    stream.capture->invalidate();
    refuse(cudaErrorStreamCaptureIsolation,
           "a stream under capture waits for an event from outside of the graph");
  }
  if (event.graph == nullptr) return false;
  if (stream.capture != nullptr && stream.capture != event.graph)
    refuse(cudaErrorStreamCaptureMerge, "a wait that would join two captures");
  if (stream.capture == nullptr && !stream.queue.empty() && stream.legacy)
    refuse(cudaErrorStreamCaptureImplicit, "the default stream cannot be captured");
  event.graph->wait(stream, event.mark);
  stream.capture = event.graph;
  return true;
}

void refuse_captured(const CUevent_st& event) {
  if (event.graph != nullptr)
    refuse(cudaErrorCapturedEvent, "the host asks for an event that was recorded into a graph");
}

void refuse_during_capture(const Machine& m, const char* call) {
  for (const auto& graph : m.captures) {
    const bool mine = graph->thread() == std::this_thread::get_id();
    if (!graph->active() || graph->mode() == cudaStreamCaptureModeRelaxed ||
        !(mine || graph->mode() == cudaStreamCaptureModeGlobal))
      continue;
    graph->invalidate();
    refuse(cudaErrorStreamCaptureUnsupported, call, " during a capture");
  }
}

void refuse_waiting(const Stream& stream) {
  if (stream.capture == nullptr) return;
  stream.capture->invalidate();
  refuse(cudaErrorStreamCaptureUnsupported, "the host waits for a stream under capture");
}

}  // namespace emulator
