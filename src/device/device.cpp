#include "chimera/device/device.h"

#include <cstdlib>
#include <cstring>
#include <utility>

namespace chimera {
namespace {

class HostDevice final : public Device {
 public:
  std::string name() const override { return "cpu"; }
  void* allocate(Index bytes) override {
    void* memory =
        std::aligned_alloc(kAlignment, static_cast<std::size_t>(round_up(bytes, kAlignment)));
    ENSURE(memory != nullptr, "cannot allocate ", bytes,
           " bytes of memory; use a smaller model, micro-batch or depth per node");
    return memory;
  }
  void release(void* memory) noexcept override { std::free(memory); }
  void zero(void* memory, Index bytes) override {
    std::memset(memory, 0, static_cast<std::size_t>(bytes));
  }
  void copy_in(void* device, const void* host, Index bytes) override {
    std::memcpy(device, host, static_cast<std::size_t>(bytes));
  }
  void copy_out(void* host, const void* device, Index bytes) override {
    std::memcpy(host, device, static_cast<std::size_t>(bytes));
  }
  void copy(void* to, const void* from, Index bytes, Stream) override {
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
  }

 private:
  static constexpr Index kAlignment = 64;
};

class PlanningDevice final : public Device {
 public:
  std::string name() const override { return "planning"; }
  void* allocate(Index) override { return nullptr; }
  void release(void*) noexcept override {}
  void zero(void*, Index) override {}
  void copy_in(void*, const void*, Index) override { Fail("the planning device has no memory"); }
  void copy_out(void*, const void*, Index) override { Fail("the planning device has no memory"); }
  void copy(void*, const void*, Index, Stream) override {
    Fail("the planning device has no memory");
  }
};

}  // namespace

std::unique_ptr<Device> make_planning_device() { return std::make_unique<PlanningDevice>(); }
std::unique_ptr<Device> make_host_device() { return std::make_unique<HostDevice>(); }

Buffer::Buffer(Device& device, Index bytes)
    : device_(&device), data_(static_cast<std::byte*>(device.allocate(bytes))), bytes_(bytes) {}

Buffer::~Buffer() {
  if (data_ != nullptr) device_->release(data_);
}

Buffer::Buffer(Buffer&& other) noexcept
    : device_(other.device_),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

}  // namespace chimera
