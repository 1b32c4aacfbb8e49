// What must agree to the last bit: the same sums in the same order, whatever the layout.
#include <numeric>

#include "support/golden_checks.h"
#include "support/support.h"

using namespace chimera;
using namespace chimera::test;

namespace {

Config dropout_config(const GoldenModel& model) {
  Config config = model.config("rich");
  config.model.embd_pdrop = config.model.attn_pdrop = config.model.resid_pdrop = 0.1;
  return config;
}

}  // namespace

TEST_CASE("gpipe and 1f1b equal the serial run bitwise, dropout included") {
  for (const std::string name : {"tied", "untied"}) {
    const GoldenModel model(name);
    const Config base = dropout_config(model);
    const Outcome serial = run_layout(model, with_layout(base, "1f1b", 1, 1, 4, model.batch()), 4);
    for (const std::string schedule : {"gpipe", "1f1b"})
      for (const Index depth : {2, 4}) {
        INFO(name << " " << schedule << " D=" << depth);
        check_equal(run_layout(model, with_layout(base, schedule, depth, 1, 4, model.batch()), 4),
                    serial);
      }
  }
}

// Chimera adds the gradients of each direction apart, then down and up: as two replicas of depth 1
// do, of which the first takes the micro-batches of the down pipe.
TEST_CASE("chimera equals a serial run with one accumulator per pipe bitwise") {
  for (const std::string name : {"tied", "untied"}) {
    const GoldenModel model(name);
    for (const Index depth : {2, 4}) {
      const Index N = depth;
      if (model.batch() % N != 0) continue;
      INFO(name << " D=" << depth);
      const Config base = dropout_config(model);
      check_equal(run_layout(model, with_layout(base, "chimera", depth, 1, N, model.batch()), 4),
                  run_layout(model, with_layout(base, "1f1b", 1, 2, N / 2, model.batch()), 4));
    }
  }
}

TEST_CASE(
    "uneven stages change nothing: a list of layers per stage equals the serial run bitwise") {
  const GoldenModel model("untied");
  const Config base = dropout_config(model);
  Config uneven = with_layout(base, "1f1b", 2, 1, 4, model.batch());
  uneven.parallel.stage_layers = {1, model.layers() - 1};
  check_equal(run_layout(model, uneven, 3),
              run_layout(model, with_layout(base, "1f1b", 1, 1, 4, model.batch()), 3));
}

TEST_CASE("a frozen depth keeps its weights and leaves the others' training intact") {
  const GoldenModel model("untied");
  Config config = with_layout(model.config("plain"), "1f1b", 2, 1, 2, model.batch());
  config.train.freeze_below = 2;
  const Outcome outcome = run_layout(model, config, 2);
  for (const auto& [name, values] : outcome.weights) {
    const std::vector<double> before = model.tensor("model", name);
    const bool frozen = name.find("wte") != std::string::npos ||
                        name.find("wpe") != std::string::npos ||
                        name.find(".h.0.") != std::string::npos;
    INFO(name);
    CHECK((relative_error(values, before) == 0) == frozen);
  }
}
