// Machines that only the emulator can be.
#include "../on_device.h"
#include "emulator/control.h"
#include "support/support.h"

using namespace chimera;
using namespace chimera::test;

TEST_CASE("cuda device: a machine without a GPU is told from a number out of range") {
  const emulator::Options before = emulator::options();
  emulator::Options options = before;
  options.devices = 0;
  emulator::reset(options);
  CHECK_THROWS_WITH(make_cuda_device(0), Catch::Matchers::StartsWith("there is no GPU"));
  options.devices = 2;
  emulator::reset(options);
  CHECK(make_cuda_device(1)->ordinal() == 1);
  CHECK_THROWS_WITH(make_cuda_device(2), Catch::Matchers::Contains("there are 2"));
  emulator::reset(before);
}
