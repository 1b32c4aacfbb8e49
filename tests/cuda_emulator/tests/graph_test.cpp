// Stream capture and graphs.
#include "device_array.h"

namespace {

using namespace emulator_test;
using Catch::Contains;

__global__ void add_to(float* out, const float* x, float value) {
  out[threadIdx.x] = x[threadIdx.x] + value;
}
__global__ void product(float* out, const float* a, const float* b) {
  out[threadIdx.x] = a[threadIdx.x] * b[threadIdx.x];
}

struct Streams {
  cudaStream_t first = nullptr, second = nullptr;
  cudaEvent_t event = nullptr;
  Streams() {
    ok(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
    ok(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
    ok(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  }
  ~Streams() {
    (void)cudaEventDestroy(event);
    (void)cudaStreamDestroy(first);
    (void)cudaStreamDestroy(second);
  }
  void order(cudaStream_t from, cudaStream_t to) const {
    ok(cudaEventRecord(event, from));
    ok(cudaStreamWaitEvent(to, event));
  }
};

// out = (x + 1) (x + 2), the factors on two streams; x goes up by 1 from launch to launch.
std::vector<float> launches(bool with_wait) {
  const Streams s;
  const DeviceArray<float> x(std::vector<float>(32, 1)), a(32), b(32), out(32);
  ok(cudaStreamBeginCapture(s.first, cudaStreamCaptureModeThreadLocal));
  s.order(s.first, s.second);
  chimera::launch(add_to, 1, 32, 0, s.first, a.get(), x.get(), 1.0f);
  chimera::launch(add_to, 1, 32, 0, s.second, b.get(), x.get(), 2.0f);
  if (with_wait) s.order(s.second, s.first);
  chimera::launch(product, 1, 32, 0, s.first, out.get(), a.get(), b.get());
  if (!with_wait) s.order(s.second, s.first);
  chimera::launch(add_to, 1, 32, 0, s.first, x.get(), x.get(), 1.0f);
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  ok(cudaStreamEndCapture(s.first, &graph));
  ok(cudaGraphInstantiate(&exec, graph));
  ok(cudaGraphDestroy(graph));
  std::vector<float> results;
  for (int step = 0; step < 3; ++step) {
    ok(cudaGraphLaunch(exec, s.first));
    chimera::launch(add_to, 1, 32, 0, s.first, out.get(), out.get(), 100.0f);
    results.push_back(out.values()[5]);
  }
  for (int step = 0; step < 2; ++step)
    ok(cudaGraphLaunch(exec, s.first));  // not waited for between
  results.push_back(out.values()[5]);
  ok(cudaGraphExecDestroy(exec));
  return results;
}

TEST_CASE("a graph does what was captured, each time it is launched") {
  for (const auto& result : for_seeds([] { return launches(true); }))
    CHECK(result == std::vector<float>{106, 112, 120, 42});
}

TEST_CASE("a wait that is missing inside of a graph changes the result", "[races]") {
  CHECK_FALSE(all_the_same(for_seeds([] { return launches(false); })));
}

TEST_CASE("nothing runs while it is captured") {
  new_machine(1);
  const Streams s;
  const DeviceArray<float> x(std::vector<float>(32, 1));
  ok(cudaStreamBeginCapture(s.first, cudaStreamCaptureModeRelaxed));
  chimera::launch(add_to, 1, 32, 0, s.first, x.get(), x.get(), 1.0f);
  cudaGraph_t graph = nullptr;
  ok(cudaStreamEndCapture(s.first, &graph));
  ok(cudaGraphDestroy(graph));
  CHECK(x.values()[0] == 1);
}

// Calls that a capture does not allow, and that make it invalid.
template <class Call>
void check_invalid(cudaError_t expected, const std::string& words, const Call& call) {
  new_machine(0);
  const Streams s;
  const DeviceArray<float> x(std::vector<float>(32, 1));
  ok(cudaStreamBeginCapture(s.first, cudaStreamCaptureModeGlobal));
  CHECK(call(s, x.get()) == expected);
  CHECK_THAT(emulator::last_report(), Contains(words));
  cudaGraph_t graph = nullptr;
  CHECK(cudaStreamEndCapture(s.first, &graph) == cudaErrorStreamCaptureInvalidated);
  CHECK(graph == nullptr);
  CHECK(cudaStreamSynchronize(s.first) == cudaSuccess);  // and all is as before
}

TEST_CASE("what a capture does not allow is refused, and the graph is not made") {
  const auto unsupported = cudaErrorStreamCaptureUnsupported;
  check_invalid(unsupported, "waits for a stream under capture",
                [](const Streams& s, float*) { return cudaStreamSynchronize(s.first); });
  check_invalid(unsupported, "cudaMalloc during a capture", [](const Streams&, float*) {
    void* memory = nullptr;
    return cudaMalloc(&memory, 4);
  });
  check_invalid(unsupported, "not page-locked", [](const Streams& s, float* x) {
    float value = 0;
    return cudaMemcpyAsync(x, &value, 4, cudaMemcpyHostToDevice, s.first);
  });
  check_invalid(cudaErrorStreamCaptureIsolation, "from outside of the graph",
                [](const Streams& s, float*) {
                  ok(cudaEventRecord(s.event, s.second));
                  return cudaStreamWaitEvent(s.first, s.event);
                });
}

TEST_CASE("a capture that leaves a stream's work behind is refused") {
  new_machine(0);
  const Streams s;
  const DeviceArray<float> x(std::vector<float>(32, 1));
  ok(cudaStreamBeginCapture(s.first, cudaStreamCaptureModeRelaxed));
  s.order(s.first, s.second);
  chimera::launch(add_to, 1, 32, 0, s.second, x.get(), x.get(), 1.0f);
  cudaGraph_t graph = nullptr;
  CHECK(cudaStreamEndCapture(s.first, &graph) == cudaErrorStreamCaptureUnjoined);
  CHECK(cudaStreamEndCapture(s.first, &graph) == cudaErrorIllegalState);
  CHECK(cudaEventQuery(s.event) == cudaErrorCapturedEvent);
}

}  // namespace
