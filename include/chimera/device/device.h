#pragma once
// Where memory lives, and in which order work on it is done. Host memory is one device; a GPU is
// another, behind the same calls.
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "chimera/base/types.h"

namespace chimera {

// Queues of a device: what one is given is done in order, what several are given in any order that
// events leave open. A GPU has a stream for each; a host device does everything at once, in the
// calling thread.
enum class Stream { Compute, Down, Up, Reductions };
inline constexpr int kStreams = 4;

// A point in what a stream has been given.
class Event {
 public:
  virtual ~Event() = default;
};

// Calls may come from any thread. On a GPU they return when the work is enqueued, but for copy_out
// and synchronize; without a stream named it is Compute's.
class Device {
 public:
  virtual ~Device() = default;
  virtual std::string name() const = 0;
  // Whether the host may read and write its memory directly.
  virtual bool in_host_memory() const { return true; }
  // At least 64-byte aligned; throws with the size when there is not enough memory. Contents
  // undefined.
  virtual void* allocate(Index bytes) = 0;
  virtual void release(void* memory) noexcept = 0;
  virtual void zero(void* memory, Index bytes) = 0;
  // The host's memory may be reused at once.
  virtual void copy_in(void* device, const void* host, Index bytes) = 0;
  // Returns when the numbers have come.
  virtual void copy_out(void* host, const void* device, Index bytes) = 0;
  // From memory of this device, or of another that it can reach; the two do not overlap.
  virtual void copy(void* to, const void* from, Index bytes, Stream stream = Stream::Compute) = 0;

  // `timed`: for seconds_between.
  virtual std::unique_ptr<Event> make_event([[maybe_unused]] bool timed = false) {
    return std::make_unique<Event>();
  }
  // The event moves behind all that the stream has been given until now.
  virtual void record(Event&, Stream) {}
  // What the stream is given from now on begins after the event as it stands now; one that was
  // never recorded holds nothing up.
  virtual void await(const Event&, Stream) {}
  virtual bool reached(const Event&) { return true; }
  // Of two that the device has reached; by its own clock.
  virtual double seconds_between(const Event&, const Event&) { return 0; }
  // Waits for all streams; throws what went wrong on the device since.
  virtual void synchronize() {}

  // Whether replay() gains anything.
  virtual bool replays() const { return false; }
  // Runs `body`, which gives work to Compute alone and waits for nothing. Calls with one key must
  // give the same work on the same memory: a GPU records the second and launches the record later
  // on (CUDA graphs), without calling `body`.
  using ReplayKey = std::array<std::uint64_t, 16>;
  virtual void replay(const ReplayKey&, const std::function<void()>& body) { body(); }
};

std::unique_ptr<Device> make_host_device();
// Gives no memory: for laying out what a run would need. Nothing may be computed on it.
std::unique_ptr<Device> make_planning_device();

// Sole owner of one block of device memory.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Device& device, Index bytes);
  ~Buffer();
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  std::byte* data() const { return data_; }
  Index bytes() const { return bytes_; }

 private:
  Device* device_ = nullptr;
  std::byte* data_ = nullptr;
  Index bytes_ = 0;
};

}  // namespace chimera
