// Stream programs, right and wrong. The machine runs them in any order that streams and events
// allow.
#include "device_array.h"

namespace {

using namespace emulator_test;
using Catch::Contains;

__global__ void add(float* x, float value, int n) {
  const auto i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) x[i] += value;
}
__global__ void copy_times(float* out, const float* x, float factor, int n) {
  const auto i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) out[i] = x[i] * factor;
}

class StreamSet {
 public:
  explicit StreamSet(int n, unsigned flags = cudaStreamNonBlocking)
      : handles_(static_cast<std::size_t>(n)) {
    for (cudaStream_t& stream : handles_) ok(cudaStreamCreateWithFlags(&stream, flags));
  }
  ~StreamSet() {
    for (const cudaStream_t stream : handles_) (void)cudaStreamDestroy(stream);
  }
  cudaStream_t operator[](std::size_t i) const { return handles_[i]; }

 private:
  std::vector<cudaStream_t> handles_;
};

cudaEvent_t new_event() {
  cudaEvent_t event = nullptr;
  ok(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  return event;
}

// `from` must be done before what comes next in `to`.
void order(cudaStream_t from, cudaStream_t to) {
  const cudaEvent_t event = new_event();
  ok(cudaEventRecord(event, from));
  ok(cudaStreamWaitEvent(to, event));
  ok(cudaEventDestroy(event));  // allowed while the record is pending
}

const int n = 100;

// A diamond over three streams; `missing` leaves one of its four waits out.
std::vector<float> diamond(int missing) {
  const StreamSet s(3);
  const DeviceArray<float> a(std::vector<float>(n, 1)), b(n), c(n), sum(n);
  const auto wait = [&](int number, cudaStream_t from, cudaStream_t to) {
    if (number != missing) order(from, to);
  };
  chimera::launch(add, 1, 128, 0, s[0], a.get(), 1.0f, n);
  wait(0, s[0], s[1]);
  wait(1, s[0], s[2]);
  chimera::launch(copy_times, 1, 128, 0, s[1], b.get(), a.get(), 2.0f, n);
  chimera::launch(copy_times, 1, 128, 0, s[2], c.get(), a.get(), 3.0f, n);
  wait(2, s[1], s[0]);
  wait(3, s[2], s[0]);
  chimera::launch(copy_times, 1, 128, 0, s[0], sum.get(), b.get(), 1.0f, n);
  chimera::launch(copy_times, 1, 128, 0, s[0], a.get(), c.get(), 1.0f, n);
  std::vector<float> result(2 * n);
  ok(cudaMemcpyAsync(result.data(), sum.get(), n * 4, cudaMemcpyDeviceToHost, s[0]));
  ok(cudaMemcpyAsync(result.data() + n, a.get(), n * 4, cudaMemcpyDeviceToHost, s[0]));
  ok(cudaDeviceSynchronize());
  return result;
}

TEST_CASE("a program whose events say all is the same to the bit for 100 orders") {
  std::vector<std::vector<float>> results;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    new_machine(seed);
    results.push_back(diamond(-1));
  }
  CHECK(results[0][0] == 4);
  CHECK(results[0][n] == 6);
  CHECK(all_the_same(results));
}

TEST_CASE("each missing wait changes the result within eight orders", "[races]") {
  for (int missing = 0; missing < 4; ++missing) {
    CAPTURE(missing);
    CHECK_FALSE(all_the_same(for_seeds([&] { return diamond(missing); })));
  }
}

// A buffer is filled again for the next step before it was read: the wait that protects it is
// missing.
std::vector<float> reused_buffer(bool with_wait) {
  const StreamSet s(2);
  const DeviceArray<float> buffer(std::vector<float>(n, 0)), out(std::vector<float>(n, 0));
  for (int step = 0; step < 3; ++step) {
    chimera::launch(add, 1, 128, 0, s[0], buffer.get(), 1.0f, n);
    order(s[0], s[1]);
    chimera::launch(copy_times, 1, 128, 0, s[1], out.get(), buffer.get(), 1.0f, n);
    ok(cudaMemsetAsync(buffer.get(), 0, n * 4, with_wait ? s[1] : s[0]));
    if (with_wait) order(s[1], s[0]);
  }
  return out.values();
}

TEST_CASE("a buffer that is used again too early changes the result", "[races]") {
  CHECK(all_the_same(for_seeds([] { return reused_buffer(true); })));
  CHECK_FALSE(all_the_same(for_seeds([] { return reused_buffer(false); })));
}

TEST_CASE("an event that is recorded again does not hold back those who waited for the first") {
  for (const auto& result : for_seeds([] {
         const StreamSet s(2);
         const cudaEvent_t event = new_event();
         const DeviceArray<float> x(std::vector<float>(n, 1)), y(n);
         ok(cudaEventRecord(event, s[0]));
         ok(cudaStreamWaitEvent(s[1], event));
         chimera::launch(copy_times, 1, 128, 0, s[1], y.get(), x.get(), 5.0f, n);
         order(s[1], s[0]);
         ok(cudaEventRecord(event, s[0]));  // after y: would be a ring if the wait meant this one
         ok(cudaEventSynchronize(event));
         return y.values();
       }))
    CHECK(result[0] == 5);
}

// ---- The default stream

std::vector<float> across_default_stream(unsigned flags) {
  const StreamSet s(1, flags);
  const DeviceArray<float> x(std::vector<float>(n, 1)), y(n);
  chimera::launch(add, 1, 128, 0, s[0], x.get(), 1.0f, n);
  chimera::launch(copy_times, 1, 128, 0, nullptr, y.get(), x.get(), 1.0f, n);
  chimera::launch(add, 1, 128, 0, s[0], y.get(), 1.0f, n);
  return y.values();
}

TEST_CASE("the default stream is in order with blocking streams, not with others", "[races]") {
  for (const auto& result : for_seeds([] { return across_default_stream(cudaStreamDefault); }))
    CHECK(result[0] == 3);
  CHECK_FALSE(all_the_same(for_seeds([] { return across_default_stream(cudaStreamNonBlocking); })));
}

TEST_CASE("cudaMemcpy does not wait for non-blocking streams", "[races]") {
  const auto run = [](bool wait) {
    return for_seeds([&] {
      const StreamSet s(1);
      const DeviceArray<float> x(std::vector<float>(n, 1));
      chimera::launch(add, 1, 128, 0, s[0], x.get(), 1.0f, n);
      if (wait) ok(cudaStreamSynchronize(s[0]));
      std::vector<float> out(n);
      ok(cudaMemcpy(out.data(), x.get(), n * 4, cudaMemcpyDeviceToHost));
      return out;
    });
  };
  CHECK(all_the_same(run(true)));
  CHECK_FALSE(all_the_same(run(false)));
}

// ---- Host memory

// With a page-locked source the copy reads when its turn comes: the host must wait before it
// writes.
std::vector<float> host_writes_early(bool pinned, bool wait) {
  const StreamSet s(1);
  const DeviceArray<float> x(n);
  std::vector<float> pageable(n, 1);
  float* source = pageable.data();
  if (pinned) ok(cudaMallocHost(&source, n * 4));
  std::fill_n(source, n, 1.0f);
  ok(cudaMemcpyAsync(x.get(), source, n * 4, cudaMemcpyHostToDevice, s[0]));
  if (wait) ok(cudaStreamSynchronize(s[0]));
  std::fill_n(source, n, 2.0f);
  auto out = x.values();
  if (pinned) ok(cudaFreeHost(source));
  return out;
}

TEST_CASE("page-locked memory is read in its turn, pageable memory during the call", "[races]") {
  for (const auto& result : for_seeds([] { return host_writes_early(false, false); }))
    CHECK(result[0] == 1);
  for (const auto& result : for_seeds([] { return host_writes_early(true, true); }))
    CHECK(result[0] == 1);
  CHECK_FALSE(all_the_same(for_seeds([] { return host_writes_early(true, false); })));
}

TEST_CASE("page-locked memory that is freed before its copy has run is reported") {
  new_machine(0);
  const StreamSet s(1);
  const DeviceArray<float> x(n);
  float* source = nullptr;
  ok(cudaMallocHost(&source, n * 4));
  ok(cudaMemcpyAsync(x.get(), source, n * 4, cudaMemcpyHostToDevice, s[0]));
  ok(cudaFreeHost(source));
  CHECK(cudaStreamSynchronize(s[0]) == cudaErrorLaunchFailure);
  CHECK_THAT(emulator::last_report(), Contains("page-locked memory has been freed"));
}

// A result read through page-locked memory before the copy was waited for.
TEST_CASE("the host that does not wait for a copy reads old values", "[races]") {
  const auto run = [](bool wait) {
    return for_seeds([&] {
      const StreamSet s(1);
      const DeviceArray<float> x(std::vector<float>(n, 3));
      float* result = nullptr;
      ok(cudaMallocHost(&result, n * 4));
      ok(cudaMemcpyAsync(result, x.get(), n * 4, cudaMemcpyDeviceToHost, s[0]));
      if (wait) ok(cudaStreamSynchronize(s[0]));
      std::vector<float> out(result, result + n);
      ok(cudaDeviceSynchronize());
      ok(cudaFreeHost(result));
      return out;
    });
  };
  CHECK(all_the_same(run(true)));
  CHECK_FALSE(all_the_same(run(false)));
}

#ifdef CHIMERA_EMULATOR_RACES
TEST_CASE("the thread sanitizer names each missing wait, also where the order hides it") {
  const auto races = [](const std::function<void()>& body) {
    // Seed 1 runs every operation when it is enqueued: results are right.
    return death_of(body, 1).words.find("data race") != std::string::npos;
  };
  CHECK_FALSE(races([] { diamond(-1); }));
  for (int missing = 0; missing < 4; ++missing) CHECK(races([&] { diamond(missing); }));
  CHECK(races([] { reused_buffer(false); }));
  CHECK(races([] { across_default_stream(cudaStreamNonBlocking); }));
  CHECK(races([] { host_writes_early(true, false); }));
}
#endif

// ---- The rest of the calls

TEST_CASE("a loop of queries ends, and host functions run in their turn") {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    new_machine(seed);
    const StreamSet s(2);
    std::vector<int> seen;
    const auto note = [](void* data) {
      auto& list = *static_cast<std::vector<int>*>(data);
      list.push_back(static_cast<int>(list.size()));
    };
    for (int i = 0; i < 3; ++i) {
      ok(cudaLaunchHostFunc(s[0], note, &seen));
      order(s[0], s[1]);
      ok(cudaLaunchHostFunc(s[1], note, &seen));
      order(s[1], s[0]);
    }
    const cudaEvent_t event = new_event();
    ok(cudaEventRecord(event, s[1]));
    int queries = 0;
    while (cudaEventQuery(event) == cudaErrorNotReady) ++queries;
    CHECK(queries <= 20);
    CHECK(seen == std::vector<int>{0, 1, 2, 3, 4, 5});
  }
}

TEST_CASE("handles that do not exist are refused") {
  new_machine(0);
  cudaStream_t stream = nullptr;
  ok(cudaStreamCreate(&stream));
  ok(cudaStreamDestroy(stream));
  CHECK(cudaStreamSynchronize(stream) == cudaErrorInvalidResourceHandle);
  const cudaEvent_t event = new_event();
  CHECK(cudaEventRecord(event, stream) == cudaErrorInvalidResourceHandle);
  ok(cudaEventDestroy(event));
  CHECK(cudaEventRecord(event, nullptr) == cudaErrorInvalidResourceHandle);
  CHECK(cudaSetDevice(1) == cudaErrorInvalidDevice);
}

TEST_CASE("memory of cudaMallocAsync and cudaFreeAsync lives between their turns") {
  for (const auto& result : for_seeds([] {
         const StreamSet s(2);
         float* x = nullptr;
         const DeviceArray<float> out(n);
         ok(cudaMallocAsync(&x, n * 4, s[0]));
         ok(cudaMemsetAsync(x, 0, n * 4, s[0]));
         order(s[0], s[1]);
         chimera::launch(copy_times, 1, 128, 0, s[1], out.get(), x, 1.0f, n);
         ok(cudaFreeAsync(x, s[1]));
         return out.values();
       }))
    CHECK(result[n - 1] == 0);
}

}  // namespace
