#pragma once
// Numbers of a device where the host can read and write them.
#include "chimera/device/device.h"
#include "chimera/tensor/tensor.h"

namespace chimera {

// here() is the tensor itself on a host device, else memory of its own: undefined until load() has
// copied the numbers in or the caller has written them; store() copies them back.
class HostCopy {
 public:
  HostCopy(Device& device, const Tensor& there);
  const Tensor& here() const { return here_; }
  void load();
  void store();

 private:
  Device& device_;
  Tensor there_, here_;
  std::unique_ptr<std::byte[]> memory_;
};

}  // namespace chimera
