// Allocation, copies, fills.
#include <cstdlib>
#include <cstring>

#include "graph.h"
#include "machine.h"
#include "race.h"

using namespace emulator;

namespace {

using chimera::concat;

void* allocate(Machine& m, std::size_t bytes, bool live) {
  const int device = current_device();
  if (bytes == 0) return nullptr;
  const std::size_t used = m.memory.bytes_used(device);
  void* memory = used + bytes <= m.options.memory_bytes && bytes <= m.options.memory_bytes
                     ? m.memory.allocate(device, bytes, live)
                     : nullptr;
  if (memory == nullptr)
    refuse(cudaErrorMemoryAllocation, bytes, " bytes on device ", device, ", of which ", used,
           " of ", m.options.memory_bytes, " are taken");
  return memory;
}

// Start of a live allocation, as the caller gave it.
const Allocation& whole(Machine& m, const void* memory) {
  const Allocation* a = m.memory.find(memory);
  if (a == nullptr || a->address != memory || !(a->live || a->pending))
    refuse(cudaErrorInvalidValue, "cudaFree of ", describe_address(m.memory, memory));
  return *a;
}

class Allocate final : public Operation {
 public:
  explicit Allocate(void* memory) : memory_(memory) {}
  std::optional<std::string> run(Machine& m, Stream&) override {
    m.memory.make_live(memory_);
    return std::nullopt;
  }
  std::string what() const override { return "cudaMallocAsync"; }

 private:
  void* memory_;
};

class Release final : public Operation {
 public:
  explicit Release(void* memory) : memory_(memory) {}
  std::optional<std::string> run(Machine& m, Stream&) override { return m.memory.release(memory_); }
  std::string what() const override { return "cudaFreeAsync"; }

 private:
  void* memory_;
};

// One side of a copy: where it lies. Refuses what leaves its allocation.
struct Side {
  int device = -1;  // -1: host
  bool pinned = false;
};
Side side_of(Machine& m, const void* address, std::size_t bytes, const char* role) {
  const Allocation* a = m.memory.find(address);
  if (a == nullptr) return {-1, m.memory.pinned(address)};
  const char* p = static_cast<const char*>(address);
  if (!(a->live || a->pending) || p < a->address || p + bytes > a->address + a->bytes)
    refuse(cudaErrorInvalidValue, "a copy of ", bytes, " bytes whose ", role, " starts at ",
           describe_address(m.memory, address));
  return {a->device, false};
}

struct Copy {
  void* to;
  std::size_t to_pitch;
  const void* from;
  std::size_t from_pitch, width, height;
  cudaMemcpyKind kind;
};

class CopyOperation final : public Operation {
 public:
  CopyOperation(const Copy& copy, Side to, Side from) : copy_(copy), to_(to), from_(from) {}

  // Page-able memory is read before the call returns; page-locked memory when the copy's turn
  // comes.
  void read_now() {
    staged_.resize(copy_.width * copy_.height);
    for (std::size_t row = 0; row < copy_.height; ++row)
      std::memcpy(staged_.data() + row * copy_.width,
                  static_cast<const char*>(copy_.from) + row * copy_.from_pitch, copy_.width);
    copy_.from = staged_.data();
    copy_.from_pitch = copy_.width;
  }
  std::optional<std::string> run(Machine& m, Stream& stream) override {
    ++m.counts.copies;
    if ((to_.pinned && !m.memory.pinned(copy_.to)) ||
        (from_.pinned && !m.memory.pinned(copy_.from)))
      return "its page-locked memory has been freed meanwhile";
    std::uint64_t devices = 0;
    for (const Side& side : {to_, from_})
      if (side.device >= 0) devices |= std::uint64_t{1} << side.device;
    m.memory.open(stream.device, devices);
    for (std::size_t row = 0; row < copy_.height; ++row) {
      char* to = static_cast<char*>(copy_.to) + row * copy_.to_pitch;
      const char* from = static_cast<const char*>(copy_.from) + row * copy_.from_pitch;
      if (staged_.empty()) race::operation_reads(from, copy_.width);
      race::operation_writes(to, copy_.width);
      std::memmove(to, from, copy_.width);
    }
    return std::nullopt;
  }
  std::string what() const override {
    return concat("a copy of ", copy_.width * copy_.height, " bytes");
  }
  std::unique_ptr<Operation> clone() const override {
    return std::make_unique<CopyOperation>(*this);
  }

 private:
  Copy copy_;
  Side to_, from_;
  std::vector<char> staged_;
};

void check_direction(const Copy& c, Side to, Side from) {
  static constexpr const char* names[] = {"HostToHost", "HostToDevice", "DeviceToHost",
                                          "DeviceToDevice"};
  if (c.kind == cudaMemcpyDefault) return;
  const int actual = (from.device >= 0 ? 2 : 0) + (to.device >= 0 ? 1 : 0);
  if (c.kind < 0 || c.kind > 4 || actual != static_cast<int>(c.kind))
    refuse(cudaErrorInvalidValue, "a copy called ", names[c.kind & 3], " that is ", names[actual]);
}

// `wait`: the synchronous kind.
cudaError_t copy(const Copy& c, cudaStream_t handle, bool wait) {
  return api_call([&](Machine& m, Machine::Lock& lock) {
    Stream& stream = m.stream(handle);
    if (c.width == 0 || c.height == 0) return cudaSuccess;
    if (c.width > c.to_pitch || c.width > c.from_pitch)
      refuse(cudaErrorInvalidPitchValue, "rows of ", c.width, " bytes with pitches ", c.to_pitch,
             " and ", c.from_pitch);
    const Side to = side_of(m, c.to, (c.height - 1) * c.to_pitch + c.width, "destination");
    const Side from = side_of(m, c.from, (c.height - 1) * c.from_pitch + c.width, "source");
    check_direction(c, to, from);
    if (wait) refuse_during_capture(m, "cudaMemcpy");
    const bool pageable = (from.device < 0 && !from.pinned) || (to.device < 0 && !to.pinned);
    if (pageable && stream.capture != nullptr) {
      stream.capture->invalidate();
      refuse(cudaErrorStreamCaptureUnsupported,
             "a copy of memory that is not page-locked in a stream under capture");
    }
    auto operation = std::make_unique<CopyOperation>(c, to, from);
    if (from.device < 0 && !from.pinned) operation->read_now();
    m.enqueue(stream, std::move(operation));
    const bool into_pageable = to.device < 0 && !to.pinned;
    if (wait || into_pageable) return m.drain(lock, {&stream});
    return cudaSuccess;
  });
}

class Fill final : public Operation {
 public:
  Fill(void* memory, int value, std::size_t bytes, int device)
      : memory_(memory), value_(value), bytes_(bytes), device_(device) {}
  std::optional<std::string> run(Machine& m, Stream& stream) override {
    m.memory.open(stream.device, device_ < 0 ? 0 : std::uint64_t{1} << device_);
    race::operation_writes(memory_, bytes_);
    std::memset(memory_, value_, bytes_);
    return std::nullopt;
  }
  std::string what() const override { return concat("a fill of ", bytes_, " bytes"); }
  std::unique_ptr<Operation> clone() const override { return std::make_unique<Fill>(*this); }

 private:
  void* memory_;
  int value_;
  std::size_t bytes_;
  int device_;
};

cudaError_t allocate_host(void** memory, std::size_t bytes) {
  return api_call([&](Machine& m, auto&) {
    const std::size_t rounded = (bytes + 4095) / 4096 * 4096;
    *memory = bytes == 0 ? nullptr : std::aligned_alloc(4096, rounded);
    if (*memory == nullptr) return bytes == 0 ? cudaSuccess : cudaErrorMemoryAllocation;
    poison(*memory, bytes);
    m.memory.pin(*memory, bytes);
    return cudaSuccess;
  });
}

}  // namespace

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  return api_call([&](Machine& m, auto&) {
    refuse_during_capture(m, "cudaMalloc");
    *memory = allocate(m, bytes, /*live=*/true);
    return cudaSuccess;
  });
}

cudaError_t cudaMallocAsync(void** memory, std::size_t bytes, cudaStream_t stream) {
  return api_call([&](Machine& m, auto&) {
    Stream& queue = m.stream(stream);
    *memory = allocate(m, bytes, /*live=*/false);
    if (*memory != nullptr) m.enqueue(queue, std::make_unique<Allocate>(*memory));
    return cudaSuccess;
  });
}

// Waits for the device first.
cudaError_t cudaFree(void* memory) {
  if (memory == nullptr) return cudaSuccess;
  return api_call([&](Machine& m, Machine::Lock& lock) {
    refuse_during_capture(m, "cudaFree");
    const int device = whole(m, memory).device;
    const cudaError_t error = m.drain(lock, m.streams_of(device));
    if (const auto damage = m.memory.release(memory)) m.fail(*damage);
    return error;
  });
}

cudaError_t cudaFreeAsync(void* memory, cudaStream_t stream) {
  if (memory == nullptr) return cudaSuccess;
  return api_call([&](Machine& m, auto&) {
    whole(m, memory);
    m.enqueue(m.stream(stream), std::make_unique<Release>(memory));
    return cudaSuccess;
  });
}

cudaError_t cudaMemGetInfo(std::size_t* free_bytes, std::size_t* total_bytes) {
  return api_call([&](Machine& m, auto&) {
    *total_bytes = m.options.memory_bytes;
    *free_bytes = *total_bytes - m.memory.bytes_used(current_device());
    return cudaSuccess;
  });
}

cudaError_t cudaMallocHost(void** memory, std::size_t bytes, unsigned) {
  return allocate_host(memory, bytes);
}
cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned) {
  return allocate_host(memory, bytes);
}

cudaError_t cudaFreeHost(void* memory) {
  if (memory == nullptr) return cudaSuccess;
  return api_call([&](Machine& m, auto&) {
    if (!m.memory.unpin(memory))
      refuse(cudaErrorInvalidValue, "cudaFreeHost of ", describe_address(m.memory, memory));
    std::free(memory);
    return cudaSuccess;
  });
}

cudaError_t cudaHostRegister(void* memory, std::size_t bytes, unsigned) {
  return api_call([&](Machine& m, auto&) {
    m.memory.pin(memory, bytes);
    return cudaSuccess;
  });
}

cudaError_t cudaHostUnregister(void* memory) {
  return api_call([&](Machine& m, auto&) {
    if (!m.memory.unpin(memory)) refuse(cudaErrorInvalidValue, "memory that is not registered");
    return cudaSuccess;
  });
}

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  return copy({to, bytes, from, bytes, bytes, 1, kind}, nullptr,
              /*wait=*/kind != cudaMemcpyDeviceToDevice);
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return copy({to, bytes, from, bytes, bytes, 1, kind}, stream, /*wait=*/false);
}
cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from,
                              std::size_t from_pitch, std::size_t width, std::size_t height,
                              cudaMemcpyKind kind, cudaStream_t stream) {
  return copy({to, to_pitch, from, from_pitch, width, height, kind}, stream, /*wait=*/false);
}
cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device,
                                std::size_t bytes, cudaStream_t stream) {
  {
    Machine& m = machine();
    const std::lock_guard lock(m.mutex);
    const Allocation *a = m.memory.find(to), *b = m.memory.find(from);
    if (a == nullptr || b == nullptr || a->device != to_device || b->device != from_device) {
      m.report("cudaMemcpyPeerAsync whose memory is not on the devices named");
      return cudaErrorInvalidValue;
    }
  }
  return copy({to, bytes, from, bytes, bytes, 1, cudaMemcpyDeviceToDevice}, stream, false);
}

cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t bytes, cudaStream_t stream) {
  return api_call([&](Machine& m, auto&) {
    Stream& queue = m.stream(stream);
    if (bytes == 0) return cudaSuccess;
    const Side side = side_of(m, memory, bytes, "destination");
    if (side.device < 0 && !side.pinned)
      refuse(cudaErrorInvalidValue, "cudaMemset of ", describe_address(m.memory, memory));
    m.enqueue(queue, std::make_unique<Fill>(memory, value, bytes, side.device));
    return cudaSuccess;
  });
}
cudaError_t cudaMemset(void* memory, int value, std::size_t bytes) {
  return cudaMemsetAsync(memory, value, bytes, nullptr);
}
