// Whole models on the GPU: against PyTorch's values, and the same bits for every order that
// streams, blocks and threads leave open.
#include <iostream>

#include "../on_device.h"
#include "chimera/tensor/half.h"
#include "support/golden_checks.h"
#include "support/support.h"

using namespace chimera;
using namespace chimera::test;

namespace {

Config on_gpu(Config config) {
  config.device.kind = "cuda";
  config.device.tune = false;
  config.parallel.timeout_seconds = 120;
  return config;
}

struct Way {
  std::string schedule;
  Index depth = 1, micro_batches = 1;
  std::string transport = "local";
  std::string gradient_sync = "lazy";
  bool split = false;
  int zero = 0;
};

Config with(const GoldenModel& model, const std::string& run, const Way& layout) {
  Config config = on_gpu(with_layout(model.config(run), layout.schedule, layout.depth, 1,
                                     layout.micro_batches, model.batch()));
  config.parallel.transport = layout.transport;
  config.parallel.request.gradient_sync = layout.gradient_sync;
  config.parallel.request.split_backward = layout.split;
  config.parallel.request.zero_stage = layout.zero;
  return config;
}

}  // namespace

TEST_CASE("gpu training: loss, gradients and curves of both models equal PyTorch's") {
  for (const std::string name : {"tied", "untied"}) {
    const GoldenModel model(name);
    for (const std::string run : {"plain", "rich"}) {
      const Outcome outcome = run_layout(model, on_gpu(model.config(run)), model.steps());
      check_gradients(model, outcome, run == "rich" ? "smoothed." : "");
      check_curve(model, run, outcome);
    }
  }
}

TEST_CASE("gpu training: pipelines on one GPU give the same bits for every order of streams") {
  const GoldenModel model("tied");
  const Index D = std::min<Index>(2, model.layers());
  for (const Way& layout :
       {Way{"1f1b", D, model.batch()}, Way{"chimera", D, model.batch(), "local", "eager"}}) {
    INFO(layout.schedule);
    std::optional<Outcome> first;
    for_every_order([&] {
      const Outcome outcome = run_layout(model, with(model, "plain", layout), 2);
      if (first) check_equal_with_gradients(outcome, *first);
      first = outcome;
    });
  }
}

TEST_CASE(
    "gpu training: in bf16 and fp16 gradients and losses stay within what rounding adds up to") {
  for (const std::string name : {"tied", "untied"})
    for (const std::string type : {"bf16", "fp16"}) {
      INFO(name << " " << type);
      const GoldenModel model(name);
      Config config = on_gpu(model.config("plain"));
      config.precision.compute = type;
      const Outcome outcome = run_layout(model, config, model.steps());
      check_rounded_gradients(model, outcome, parse_compute_type(type));
      const auto curve = model.curve("plain");
      for (std::size_t i = 0; i < curve.size(); ++i)
        CHECK(std::abs(outcome.steps[i].loss - curve[i].loss) < 0.05);
    }
}

TEST_CASE("gpu training: in bf16 a pipeline gives the same bits for every order of streams") {
  const GoldenModel model("tied");
  Config config =
      with(model, "rich", {"chimera", std::min<Index>(2, model.layers()), model.batch()});
  config.precision.compute = "bf16";
  config.precision.stochastic_rounding = true;
  config.model.attn_pdrop = config.model.resid_pdrop = config.model.embd_pdrop = 0.1;
  std::optional<Outcome> first;
  for_every_order([&] {
    const Outcome outcome = run_layout(model, config, 3);
    if (first) check_equal_with_gradients(outcome, *first);
    first = outcome;
  });
}

TEST_CASE("gpu training: one GPU per worker, with NCCL, equals one GPU for all, to the last bit") {
  const GoldenModel model("untied");
  const Index D = model.layers() % 4 == 0 ? 4 : 2;
  for (const Way& way : {Way{"1f1b", D, model.batch()}, Way{"chimera", D, model.batch()},
                         Way{"chimera", 2, model.batch(), "local", "eager-opt", false, 1}}) {
    INFO(way.schedule << " D=" << way.depth << " ZeRO " << way.zero);
    std::optional<Outcome> one;
    const auto run = [&](const Way& w) { return run_layout(model, with(model, "plain", w), 2); };
    on_devices(1, [&] { one = run(way); });
    Way nccl = way;
    nccl.transport = "nccl";
    if (!on_devices(narrow<int>(way.depth), [&] { check_equal_with_gradients(run(nccl), *one); }))
      std::cout << "skipped: NCCL between " << way.depth << " GPUs needs as many\n";
  }
}
