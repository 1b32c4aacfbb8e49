#include "chimera/device/cuda_device.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>

#include "chimera/device/cuda_info.h"
#include "graphs.h"
#include "ops/kernels.h"

namespace chimera {
namespace {

// Page-locked pieces of host memory that copies to the device are staged in, used in turn.
class Staging {
 public:
  static constexpr std::size_t kPieceBytes = std::size_t{1} << 20;

  explicit Staging(cudaStream_t stream) : stream_(stream) {
    for (Piece& piece : pieces_) {
      check_cuda(cudaMallocHost(&piece.memory, kPieceBytes), "allocating page-locked memory");
      check_cuda(cudaEventCreateWithFlags(&piece.done, cudaEventDisableTiming),
                 "creating an event");
    }
  }
  ~Staging() {
    cudaStreamSynchronize(stream_);
    for (const Piece& piece : pieces_) {
      if (piece.done != nullptr) cudaEventDestroy(piece.done);
      if (piece.memory != nullptr) cudaFreeHost(piece.memory);
    }
  }
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  void copy_in(std::byte* device, const std::byte* host, std::size_t bytes) {
    for (std::size_t at = 0; at < bytes; at += kPieceBytes) {
      Piece& piece = pieces_[next_];
      next_ = (next_ + 1) % pieces_.size();
      check_cuda(cudaEventSynchronize(piece.done), "waiting for an earlier copy to the GPU");
      const std::size_t count = std::min(kPieceBytes, bytes - at);
      std::memcpy(piece.memory, host + at, count);
      check_cuda(cudaMemcpyAsync(device + at, piece.memory, count, cudaMemcpyHostToDevice, stream_),
                 "copying to the GPU");
      check_cuda(cudaEventRecord(piece.done, stream_), "recording an event");
    }
  }

 private:
  struct Piece {
    void* memory = nullptr;
    cudaEvent_t done = nullptr;
  };
  cudaStream_t stream_;
  std::array<Piece, 4> pieces_;
  std::size_t next_ = 0;
};

// The streams of a device, which they make the calling thread's own.
class Streams {
 public:
  explicit Streams(int ordinal) {
    check_cuda(cudaSetDevice(ordinal), "selecting the GPU");
    int least = 0, greatest = 0;
    check_cuda(cudaDeviceGetStreamPriorityRange(&least, &greatest), "asking for priorities");
    for (int s = 0; s < kStreams; ++s)
      check_cuda(cudaStreamCreateWithPriority(&of(static_cast<Stream>(s)), cudaStreamNonBlocking,
                                              s == 0 ? least : greatest),
                 "creating a stream");
  }
  ~Streams() {
    for (const cudaStream_t stream : streams_)
      if (stream != nullptr) cudaStreamDestroy(stream);
  }
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;
  cudaStream_t& of(Stream s) { return streams_[static_cast<std::size_t>(s)]; }
  cudaStream_t of(Stream s) const { return streams_[static_cast<std::size_t>(s)]; }

 private:
  std::array<cudaStream_t, kStreams> streams_{};
};

class CudaEvent final : public Event {
 public:
  explicit CudaEvent(bool timed) {
    check_cuda(cudaEventCreateWithFlags(&event_, timed ? cudaEventDefault : cudaEventDisableTiming),
               "creating an event");
  }
  ~CudaEvent() override { cudaEventDestroy(event_); }
  CudaEvent(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  static cudaEvent_t of(const Event& event) { return static_cast<const CudaEvent&>(event).event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

class OneCudaDevice final : public CudaDevice {
 public:
  explicit OneCudaDevice(int ordinal)
      : ordinal_(ordinal),
        streams_(ordinal),
        staging_(streams_.of(Stream::Compute)),
        graphs_(streams_.of(Stream::Compute)) {
    cudaDeviceProp properties{};
    check_cuda(cudaGetDeviceProperties(&properties, ordinal), "reading the GPU's properties");
    name_ = concat("cuda:", ordinal, " ", static_cast<const char*>(properties.name));
  }
  ~OneCudaDevice() override { cudaSetDevice(ordinal_); }

  std::string name() const override { return name_; }
  int ordinal() const override { return ordinal_; }
  CUstream_st* stream(Stream s) const override { return streams_.of(s); }

  void* allocate(Index bytes) override {
    activate();
    void* memory = nullptr;
    const auto size = static_cast<std::size_t>(std::max<Index>(bytes, 1));
    const cudaError_t status = cudaMalloc(&memory, size);
    if (status == cudaSuccess) return memory;
    cudaGetLastError();  // a refused request leaves the device as it was
    std::size_t free_bytes = 0, total = 0;
    check_cuda(cudaMemGetInfo(&free_bytes, &total), "asking for the GPU's free memory");
    Fail("cannot allocate ", bytes, " bytes on ", name_, " (", cudaGetErrorString(status),
         "): ", free_bytes, " of ", total,
         " are free; use a smaller model, micro-batch or depth per GPU, or recompute");
  }
  void release(void* memory) noexcept override {
    if (cudaSetDevice(ordinal_) == cudaSuccess) cudaFree(memory);
  }
  void zero(void* memory, Index bytes) override {
    if (bytes == 0) return;
    activate();
    check_cuda(cudaMemsetAsync(memory, 0, static_cast<std::size_t>(bytes), compute()),
               "zeroing memory of the GPU");
  }
  void copy_in(void* device, const void* host, Index bytes) override {
    activate();
    std::lock_guard lock(staging_mutex_);
    staging_.copy_in(static_cast<std::byte*>(device), static_cast<const std::byte*>(host),
                     static_cast<std::size_t>(bytes));
  }
  void copy_out(void* host, const void* device, Index bytes) override {
    activate();
    if (bytes > 0)
      check_cuda(cudaMemcpyAsync(host, device, static_cast<std::size_t>(bytes),
                                 cudaMemcpyDeviceToHost, compute()),
                 "copying from the GPU");
    check_cuda(cudaStreamSynchronize(compute()), "waiting for the GPU");
  }
  void copy(void* to, const void* from, Index bytes, Stream s) override {
    if (bytes == 0) return;
    activate();
    check_cuda(
        cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDefault, stream(s)),
        "copying within the GPU");
  }

  std::unique_ptr<Event> make_event(bool timed) override {
    activate();
    return std::make_unique<CudaEvent>(timed);
  }
  void record(Event& event, Stream s) override {
    activate();
    check_cuda(cudaEventRecord(CudaEvent::of(event), stream(s)), "recording an event");
  }
  void await(const Event& event, Stream s) override {
    activate();
    check_cuda(cudaStreamWaitEvent(stream(s), CudaEvent::of(event), 0), "waiting for an event");
  }
  bool reached(const Event& event) override {
    activate();
    const cudaError_t status = cudaEventQuery(CudaEvent::of(event));
    if (status == cudaErrorNotReady) return false;
    check_cuda(status, "asking for an event");
    return true;
  }
  double seconds_between(const Event& from, const Event& to) override {
    activate();
    float milliseconds = 0;
    check_cuda(cudaEventElapsedTime(&milliseconds, CudaEvent::of(from), CudaEvent::of(to)),
               "reading the GPU's clock");
    return 1e-3 * static_cast<double>(milliseconds);
  }
  bool replays() const override { return true; }
  void replay(const ReplayKey& key, const std::function<void()>& body) override {
    activate();
    graphs_.run(key, body);
  }
  void synchronize() override {
    activate();
    for (int s = 0; s < kStreams; ++s)
      check_cuda(cudaStreamSynchronize(stream(static_cast<Stream>(s))), "waiting for the GPU");
  }

 private:
  // CUDA's current device belongs to the thread.
  void activate() const { check_cuda(cudaSetDevice(ordinal_), "selecting the GPU"); }
  cudaStream_t compute() const { return stream(Stream::Compute); }

  int ordinal_;
  Streams streams_;
  std::mutex staging_mutex_;
  Staging staging_;
  cuda::Graphs graphs_;
  std::string name_;
};

// Throws where the driver or the number of devices does not serve.
void check_present(int ordinal) {
  const std::string problem = cuda_problem();
  ENSURE(problem.empty(), problem);
  int count = 0;
  check_cuda(cudaGetDeviceCount(&count), "counting GPUs");
  ENSURE(ordinal >= 0 && ordinal < count, "GPU ", ordinal, " was asked for, and there are ", count,
         " (CUDA_VISIBLE_DEVICES counts); start no more ranks on a node than it has GPUs");
}

}  // namespace

std::unique_ptr<CudaDevice> make_cuda_device(int ordinal) {
  check_present(ordinal);
  auto device = std::make_unique<OneCudaDevice>(ordinal);
  const cudaError_t runs = cuda::probe_kernels();
  ENSURE(runs != cudaErrorNoKernelImageForDevice && runs != cudaErrorInvalidDeviceFunction,
         "this program was not built for ", device->name(),
         "; configure with -DCMAKE_CUDA_ARCHITECTURES=native (compute capability 8.0 or newer), or "
         "set "
         "device.kind to cpu");
  check_cuda(runs, "trying the GPU");
  return device;
}

}  // namespace chimera
