#pragma once
// Where memory lives. Host memory is one device; a GPU is another, behind the same five calls.
#include <cstddef>
#include <memory>
#include <string>

#include "chimera/base/types.h"

namespace chimera {

class Device {
 public:
  virtual ~Device() = default;
  virtual std::string name() const = 0;
  // At least 64-byte aligned; throws with the size when there is not enough memory. Contents
  // undefined.
  virtual void* allocate(Index bytes) = 0;
  virtual void release(void* memory) noexcept = 0;
  virtual void zero(void* memory, Index bytes) = 0;
  virtual void copy_in(void* device, const void* host, Index bytes) = 0;
  virtual void copy_out(void* host, const void* device, Index bytes) = 0;
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
