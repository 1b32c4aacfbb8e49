// 16-bit types under every layout: the same bits wherever sums have the same order.
#include "support/golden_checks.h"
#include "support/support.h"

using namespace chimera;
using namespace chimera::test;

namespace {

struct Precision {
  std::string compute;
  bool stochastic = false;
};
const Precision kPrecisions[] = {{"bf16"}, {"bf16", true}, {"fp16"}, {"fp16", true}};

Config precise(const GoldenModel& model, const Precision& p) {
  Config config = model.config("rich");
  config.model.embd_pdrop = config.model.attn_pdrop = config.model.resid_pdrop = 0.1;
  config.precision.compute = p.compute;
  config.precision.stochastic_rounding = p.stochastic;
  return config;
}

}  // namespace

TEST_CASE("in 16 bits gpipe and 1f1b equal the serial run bitwise, dropout included") {
  for (const std::string name : {"tied", "untied"})
    for (const Precision& p : kPrecisions) {
      const GoldenModel model(name);
      const Config base = precise(model, p);
      const Outcome serial =
          run_layout(model, with_layout(base, "1f1b", 1, 1, 4, model.batch()), 4);
      for (const std::string schedule : {"gpipe", "1f1b"})
        for (const Index depth : {2, 4}) {
          INFO(name << " " << p.compute << " " << schedule << " D=" << depth);
          check_equal(run_layout(model, with_layout(base, schedule, depth, 1, 4, model.batch()), 4),
                      serial);
        }
    }
}

// Gradients are added in fp32 in either case: per pipe, then over the pipes.
TEST_CASE("in 16 bits chimera equals a serial run with one accumulator per pipe bitwise") {
  for (const std::string name : {"tied", "untied"})
    for (const Precision& p : kPrecisions)
      for (const Index depth : {2, 4}) {
        const GoldenModel model(name);
        if (model.batch() % depth != 0) continue;
        INFO(name << " " << p.compute << " D=" << depth);
        const Config base = precise(model, p);
        const Outcome chimera =
            run_layout(model, with_layout(base, "chimera", depth, 1, depth, model.batch()), 4);
        check_equal(
            chimera,
            run_layout(model, with_layout(base, "1f1b", 1, 2, depth / 2, model.batch()), 4));
        // One accumulator adds in another order: fp32 rounding of sums, which may move a weight to
        // the other neighbour in 16 bits.
        const Outcome serial =
            run_layout(model, with_layout(base, "1f1b", 1, 1, depth, model.batch()), 4);
        for (std::size_t i = 0; i < chimera.steps.size(); ++i)
          CHECK(std::abs(chimera.steps[i].loss - serial.steps[i].loss) < 2e-3);
      }
}

TEST_CASE("in 16 bits sharded optimizer state changes no bit") {
  for (const std::string name : {"tied", "untied"})
    for (const Precision& p : kPrecisions)
      for (const auto& [schedule, depth, width] :
           {std::tuple{"1f1b", 1, 2}, {"1f1b", 2, 2}, {"chimera", 2, 1}, {"chimera", 2, 2}}) {
        const GoldenModel model(name);
        Config config = with_layout(precise(model, p), schedule, depth, width, 2, model.batch());
        const Outcome whole = run_layout(model, config, 4);
        config.parallel.request.zero_stage = 1;
        INFO(name << " " << p.compute << " " << schedule << " D=" << depth << " W=" << width);
        check_equal(run_layout(model, config, 4), whole);
      }
}

TEST_CASE(
    "in 16 bits schedules with old weights and recomputation run, and recomputation is exact") {
  const GoldenModel model("untied");
  for (const Precision& p : {kPrecisions[0], kPrecisions[1]}) {
    Config config = precise(model, p);
    config.optimizer.grad_clip = 0;
    for (const std::string schedule : {"pipedream", "pipedream-2bw"}) {
      const Index N = schedule == "pipedream" ? 1 : 2;
      const Outcome stale =
          run_layout(model, with_layout(config, schedule, 2, 1, N, model.batch()), 4);
      for (const StepResult& step : stale.steps) CHECK(std::isfinite(step.loss));
    }
    const Config plain = with_layout(config, "1f1b", 2, 1, 4, model.batch());
    const Outcome expected = run_layout(model, plain, 3);
    for (const std::string recompute : {"selective", "full"}) {
      Config again = plain;
      again.parallel.recompute = recompute;
      check_equal(run_layout(model, again, 3), expected);
    }
  }
}
