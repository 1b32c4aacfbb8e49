#include "../on_device.h"
#include "chimera/device/cuda_info.h"

namespace chimera::test {

void for_every_order(const std::function<void()>& body) {
  body();
  body();
}

bool on_devices(int count, const std::function<void()>& body) {
  if (std::ssize(cuda_devices()) < count) return false;
  body();
  return true;
}

}  // namespace chimera::test
