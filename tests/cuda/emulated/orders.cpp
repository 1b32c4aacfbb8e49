#include <catch2/catch.hpp>

#include "../on_device.h"
#include "emulator/control.h"

namespace chimera::test {

// Threads and blocks ascending, descending, shuffled; streams as late and as early as can be, and
// at random.
void for_every_order(const std::function<void()>& body) {
  const emulator::Options before = emulator::options();
  for (const std::uint64_t seed : {0, 1, 7}) {
    INFO("emulator seed " << seed);
    emulator::Options options = before;
    options.seed = seed;
    emulator::reset(options);
    body();
    INFO(emulator::last_report());
    CHECK(emulator::report_count() == 0);
    CHECK(emulator::statistics().live_allocations == 0);
  }
  emulator::reset(before);
}

bool on_devices(int count, const std::function<void()>& body) {
  const emulator::Options before = emulator::options();
  emulator::Options options = before;
  options.devices = count;
  emulator::reset(options);
  body();
  CHECK(emulator::report_count() == 0);
  emulator::reset(before);
  return true;
}

}  // namespace chimera::test
