// The GPU in the place of the CPU for the tests of tests/kernels.
#include "kernels/kernel_support.h"
#include "on_device.h"

namespace chimera::test {

void on_every_machine(const std::function<void(Ops&)>& body) {
  for_every_order([&] {
    const auto ops = make_on_device_ops();
    body(*ops);
  });
}

std::unique_ptr<Ops> test_ops() { return make_on_device_ops(); }

}  // namespace chimera::test
