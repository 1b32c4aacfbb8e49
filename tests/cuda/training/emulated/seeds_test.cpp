// Many orders of streams, on the layouts with the most of them.
#include "emulator/control.h"
#include "support/golden_checks.h"
#include "support/support.h"

namespace chimera::test {

TEST_CASE("gpu training: sixteen orders of streams give the same bits, whatever carries messages") {
  const GoldenModel model("tied");
  const Index D = std::min<Index>(4, model.layers());
  const emulator::Options before = emulator::options();
  for (const std::string transport : {"local", "nccl"}) {
    Config config = with_layout(model.config("plain"), "chimera", D, 1,
                                std::min<Index>(4, model.batch()), model.batch());
    config.device.kind = "cuda";
    config.device.tune = false;
    config.parallel.transport = transport;
    config.parallel.request.gradient_sync = "eager";
    config.parallel.request.zero_stage = 1;
    config.parallel.timeout_seconds = 120;
    std::optional<Outcome> first;
    for (std::uint64_t seed = 0; seed < 16; ++seed) {
      INFO(transport << " seed " << seed);
      emulator::Options options = before;
      options.seed = seed;
      options.devices = transport == "nccl" ? static_cast<int>(D) : 1;
      emulator::reset(options);
      const Outcome outcome = run_layout(model, config, 2);
      INFO(emulator::last_report());
      CHECK(emulator::report_count() == 0);
      if (!first) first = outcome;
      check_equal(outcome, *first);
    }
  }
  emulator::reset(before);
}

}  // namespace chimera::test
