#include "chimera/tensor/host_copy.h"

namespace chimera {

HostCopy::HostCopy(Device& device, const Tensor& there)
    : device_(device), there_(there), here_(there) {
  if (device.in_host_memory()) return;
  memory_ = std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(there.bytes()));
  here_ = there.at(memory_.get());
}

void HostCopy::load() {
  if (memory_) device_.copy_out(memory_.get(), there_.raw(), there_.bytes());
}

void HostCopy::store() {
  if (memory_) device_.copy_in(there_.raw(), memory_.get(), there_.bytes());
}

}  // namespace chimera
