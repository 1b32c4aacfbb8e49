#pragma once
// Device memory: pages of the process that only copies and kernels of the right device may touch,
// between pages that nobody may touch. And the list of page-locked host memory.
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>

namespace emulator {

struct Allocation {
  char* mapping = nullptr;  // with the guard pages
  std::size_t mapping_bytes = 0;
  char* address = nullptr;
  std::size_t bytes = 0;
  int device = 0;
  bool live = true;      // false: freed, or pending
  bool pending = false;  // of cudaMallocAsync, its turn has not come
  bool open = false;     // pages can be touched
};

class DeviceMemory {
 public:
  DeviceMemory() = default;
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;

  // Holds poison; null when the system has no memory. Aligned to 256 bytes and, but for that, flush
  // with the guard page behind it.
  void* allocate(int device, std::size_t bytes, bool live);
  void make_live(void* address);
  // Returns what was written outside of the allocation, if anything was. The address stays taken
  // for a while, so that later use is a fault.
  std::optional<std::string> release(void* address);
  // The same check for all live allocations.
  std::optional<std::string> check_guards() const;

  // The live or dead allocation around an address; null where there is none.
  const Allocation* find(const void* address) const;
  std::size_t bytes_used(int device) const;
  std::int64_t live_allocations() const { return static_cast<std::int64_t>(allocations_.size()); }

  // Opens the memory of `device` and of those in `peers` (bits), closes all other memory.
  void open(int device, std::uint64_t peers);
  void close();

  // Page-locked host memory.
  void pin(const void* address, std::size_t bytes);
  bool unpin(const void* address);
  bool pinned(const void* address) const;

 private:
  static void protect(Allocation& allocation, bool open);
  static std::optional<std::string> check(const Allocation& allocation);

  std::map<const char*, Allocation> allocations_;  // by address
  std::deque<Allocation> freed_;
  std::map<const char*, std::size_t> pinned_;
  std::uint64_t open_devices_ = 0;
};

// "12 bytes past the end of an allocation of 100 bytes on device 0"; for messages.
std::string describe_address(const DeviceMemory& memory, const void* address);

}  // namespace emulator
