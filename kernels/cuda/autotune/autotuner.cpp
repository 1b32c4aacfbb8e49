#include "autotuner.h"

#include <algorithm>
#include <iomanip>
#include <sstream>

#include "chimera/base/log.h"

namespace chimera::cuda {
namespace {

constexpr int kRounds = 3, kRuns = 4;
constexpr double kMargin = 0.98;
constexpr const char* kTiming = "timing on the GPU";

class Event {
 public:
  Event() { check_cuda(cudaEventCreate(&event_), kTiming); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

struct Names {
  const char *what, *library, *ours;
};
Names names_of(TunedOp op) {
  switch (op) {
    case TunedOp::GeluForward: return {"linear gelu forward", "fused", "apart"};
    case TunedOp::GeluBackward: return {"linear gelu backward", "fused", "apart"};
    case TunedOp::BackwardWeight: return {"linear backward weight", "fused", "apart"};
    case TunedOp::PaddedMatmul: return {"matmul with unaligned rows", "padded", "unpadded"};
    case TunedOp::AttentionForward: return {"attention forward", "cuDNN", "ours"};
    case TunedOp::AttentionBackward: return {"attention backward", "cuDNN", "ours"};
  }
  Fail("no such op");
}

std::string milliseconds(double ms) {
  std::ostringstream out;
  out << std::setprecision(3) << ms << " ms";
  return out.str();
}

}  // namespace

std::optional<double> time_on(cudaStream_t stream, const Work& work) {
  if (!work()) return std::nullopt;  // warms up, too
  const Event start, end;
  double least = 0;
  for (int round = 0; round < kRounds; ++round) {
    check_cuda(cudaEventRecord(start.get(), stream), kTiming);
    for (int run = 0; run < kRuns; ++run) work();
    check_cuda(cudaEventRecord(end.get(), stream), kTiming);
    check_cuda(cudaEventSynchronize(end.get()), kTiming);
    float ms = 0;
    check_cuda(cudaEventElapsedTime(&ms, start.get(), end.get()), kTiming);
    const double one = static_cast<double>(ms) / kRuns;
    least = round == 0 ? one : std::min(least, one);
  }
  return least;
}

bool capturing(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check_cuda(cudaStreamIsCapturing(stream, &status), "asking a stream whether it is captured");
  return status != cudaStreamCaptureStatusNone;
}

std::optional<Fastest> fastest(const std::vector<std::optional<double>>& times) {
  std::optional<Fastest> best;
  for (std::size_t i = 0; i < times.size(); ++i)
    if (times[i] && (!best || *times[i] < kMargin * best->milliseconds)) best = {i, *times[i]};
  return best;
}

AutotuneScope autotune_scope(const std::string& library) {
  constexpr const char* kAsking = "asking what GPU this is";
  AutotuneScope scope{.library = library};
  int device = 0;
  cudaDeviceProp properties;
  check_cuda(cudaGetDevice(&device), kAsking);
  check_cuda(cudaGetDeviceProperties(&properties, device), kAsking);
  check_cuda(cudaDriverGetVersion(&scope.driver), kAsking);
  check_cuda(cudaRuntimeGetVersion(&scope.runtime), kAsking);
  scope.device = properties.name;
  scope.capability = concat(properties.major, ".", properties.minor);
  return scope;
}

TrialMemory::TrialMemory(Index bytes) {
  if (bytes == 0 || cudaMalloc(&memory_, static_cast<std::size_t>(bytes)) == cudaSuccess) return;
  cudaGetLastError();  // not enough memory is not the state of the device, only of this request
  memory_ = nullptr;
}
TrialMemory::~TrialMemory() {
  if (memory_ != nullptr) cudaFree(memory_);
}

std::string to_string(const TunedCase& c) {
  const std::string head = concat(names_of(c.op).what, " ", chimera::to_string(c.type));
  return c.op < TunedOp::AttentionForward
             ? concat(head, " R ", c.a, " K ", c.b, " N ", c.c,
                      c.d != 0 ? concat(" way ", c.d) : "")
             : concat(head, " B ", c.a, " H ", c.b, " T ", c.c, " head ", c.d);
}

bool Autotuner::decide(const TunedCase& c, const Work& library, const Work& ours) {
  const Names names = names_of(c.op);
  const std::string key = to_string(c);
  std::optional<AutotuneResult> result = cache_->find(key);
  std::string why = ", from the cache";
  if (result && result->value != names.library && result->value != names.ours) {
    log_warning("GPU: ", key, ": the result \"", result->value, "\" of ", cache_->path().string(),
                " is neither ", names.library, " nor ", names.ours, "; timed again");
    cache_->reject(key);
    result.reset();
  }
  if (!result) {
    if (capturing(stream_)) return false;
    const std::optional<double> theirs = time_on(stream_, library);
    if (!theirs) return false;  // the next call of this case may be possible, so it is asked again
    const std::vector<std::optional<double>> times{time_on(stream_, ours), theirs};
    const auto best = fastest(times);
    result = cache_->keep(key, {best->index == 1 ? names.library : names.ours, best->milliseconds});
    why = concat(": ", names.library, " ", milliseconds(*times[1]), ", ", names.ours, " ",
                 milliseconds(*times[0]));
  }
  lines_.push_back(concat(key, ": ", result->value, why));
  log_info("GPU: ", lines_.back());
  return known_[c] = result->value == names.library;
}

}  // namespace chimera::cuda
