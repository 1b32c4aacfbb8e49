// Every synchronous schedule, in every way of running it, against each other to the last bit.
#include "chimera/schedule/compare.h"
#include "support/golden_checks.h"
#include "support/support.h"

using namespace chimera;
using namespace chimera::test;

namespace {

Config base_with_dropout(const GoldenModel& model) {
  Config config = model.config("rich");
  config.model.embd_pdrop = config.model.attn_pdrop = config.model.resid_pdrop = 0.1;
  return config;
}

struct ScheduleCase {
  std::string schedule;
  Index depth, micro_batches, width = 1, pairs = 1;
  std::string scaling = "direct";
  bool split = false, overlap = false;
  Index virtual_stages = 1;
};

std::string name_of(const ScheduleCase& l) {
  return concat(l.schedule, " D=", l.depth, " N=", l.micro_batches, " W=", l.width, " f=", l.pairs,
                " ", l.scaling, l.split ? " split" : "", l.overlap ? " overlapping" : "",
                " v=", l.virtual_stages);
}

Config config_of(const GoldenModel& model, const Config& base, const ScheduleCase& l) {
  // The reference's batch, or what the layout needs more.
  const Index least = l.width * l.micro_batches, batch = ceil_div(model.batch(), least) * least;
  Config config = with_layout(base, l.schedule, l.depth, l.width, l.micro_batches, batch);
  config.parallel.request.pipeline_pairs = narrow<int>(l.pairs);
  config.parallel.request.scaling = l.scaling;
  config.parallel.request.split_backward = l.split;
  config.parallel.request.overlap_steps = l.overlap;
  config.parallel.request.virtual_stages = narrow<int>(l.virtual_stages);
  if (l.overlap) config.optimizer.grad_clip = 0;
  return config;
}

const std::vector<ScheduleCase> kScheduleCases = {
    {"gpipe", 2, 4, 2},
    {"1f1b", 4, 4},
    {"gems", 2, 4},
    {"gems", 3, 2, 2},
    {"chimera", 4, 4},
    {"chimera", 2, 2, 2},
    {"chimera", 4, 8, 1, 2},
    {"chimera", 2, 8, 1, 1, "doubling"},
    {"chimera", 4, 8, 1, 1, "doubling"},
    {"chimera", 4, 4, 1, 1, "halving"},
    {"chimera", 4, 4, 1, 2, "doubling"},
    {"zb-h1", 4, 4},
    {"chimera", 4, 4, 1, 1, "direct", true},
    {"interleaved", 2, 4, 1, 1, "direct", false, false, 2},
};

}  // namespace

// The sums are ordered, masks are functions of the sample, and shards are cut at the norm's blocks.
TEST_CASE("when gradients are summed, sharded state and recomputation change no bit") {
  for (const std::string name : {"tied", "untied"}) {
    const GoldenModel model(name);
    const Config base = base_with_dropout(model);
    for (const ScheduleCase& layout : kScheduleCases) {
      if (layout.depth > model.layers()) continue;
      INFO(name << " " << name_of(layout));
      const Config plain = config_of(model, base, layout);
      const Outcome expected = run_layout(model, plain, 3);
      for (const std::string sync : {"eager", "eager-opt"})
        for (const int zero : {0, 1})
          for (const std::string recompute : {"none", "selective", "full"}) {
            if (layout.scaling == "halving" && recompute == "full") continue;
            if (plain.parallel.request.split_backward && recompute == "selective") continue;
            INFO(sync << " zero " << zero << " recompute " << recompute);
            Config config = plain;
            config.parallel.request.gradient_sync = sync;
            config.parallel.request.zero_stage = zero;
            config.parallel.recompute = recompute;
            check_equal_with_gradients(run_layout(model, config, 3), expected);
          }
    }
  }
}

// One direction: gradients of a stage are added in micro-batch order, as in the serial run.
TEST_CASE("one pipeline equals the serial run bitwise, two equal two accumulators") {
  for (const std::string name : {"tied", "untied"}) {
    const GoldenModel model(name);
    const Config base = base_with_dropout(model);
    const auto run = [&](const ScheduleCase& layout) {
      return run_layout(model, config_of(model, base, layout), 3);
    };
    const Outcome serial = run({"1f1b", 1, 4});
    check_equal_with_gradients(run({"gpipe", 2, 4}), serial);
    check_equal_with_gradients(run({"1f1b", 4, 4}), serial);
    check_equal_with_gradients(run({"zb-h1", 4, 4}), serial);
    check_equal_with_gradients(run({"interleaved", 2, 4, 1, 1, "direct", false, false, 2}), serial);
    // GEMS alternates its replicas: as chimera, whose down pipe takes the first half, but for the
    // order of micro-batches; with two of them that is the same.
    check_equal_with_gradients(run({"gems", 2, 2}), run({"chimera", 2, 2}));
  }
}

// A stage is updated when its own gradients are reduced and needed by nobody else: no weight is
// stale, so neither a barrier nor a pause changes a bit.
TEST_CASE("overlapping steps equal steps with a barrier bitwise") {
  for (const std::string name : {"tied", "untied"}) {
    const GoldenModel model(name);
    Config base = base_with_dropout(model);
    base.optimizer.grad_clip = 0;
    for (const ScheduleCase& layout : {ScheduleCase{"chimera", 2, 2},
                                       {"chimera", 2, 8},
                                       {"chimera", 4, 4},
                                       {"chimera", 4, 8},
                                       {"chimera", 4, 8, 1, 2},
                                       {"chimera", 4, 2, 2}}) {
      ScheduleCase split = layout;
      split.split = true;
      ScheduleCase overlapping = split;
      overlapping.overlap = true;
      INFO(name << " " << name_of(overlapping));
      const Outcome expected = run_layout(model, config_of(model, base, layout), model.steps());
      check_equal_with_gradients(run_layout(model, config_of(model, base, split), model.steps()),
                                 expected);
      for (const std::string recompute : {"none", "full"}) {
        Config config = config_of(model, base, overlapping);
        config.parallel.recompute = recompute;
        check_equal_with_gradients(run_layout(model, config, model.steps()), expected);
      }
    }
  }
}

// Sums of four micro-batches in another order differ by rounding, 1e-7 per sum; three steps of Adam
// keep that below 1e-4 in the losses. Stale weights are those of the first step for a while.
TEST_CASE("every known schedule trains, in every way that its traits allow") {
  const GoldenModel model("untied");
  Config base = model.config("plain");
  base.optimizer.grad_clip = 0;  // which all of them can do
  const Outcome serial = run_layout(model, with_layout(base, "1f1b", 1, 1, 4, 4), 3);
  schedule::Request request;
  request.depth = 2;
  for (const schedule::NamedRequest& one : schedule::each_schedule(request)) {
    schedule::Request r = one.request;
    r.micro_batches = schedule::micro_batches_of_step(r);
    if (r.depth * r.virtual_stages > model.layers() || !schedule::refusal(r).empty()) continue;
    INFO(one.name);
    Config config = base;
    config.parallel.request = r;
    config.parallel.micro_batch_size = 4 / r.micro_batches;
    const Outcome outcome = run_layout(model, config, 3);
    CHECK(std::abs(outcome.steps[0].loss - serial.steps[0].loss) < 1e-5);
    for (std::size_t i = 1; i < 3; ++i) {
      if (schedule::traits_of(r.schedule).stale)
        CHECK(std::isfinite(outcome.steps[i].loss));
      else
        CHECK(std::abs(outcome.steps[i].loss - serial.steps[i].loss) < 1e-4);
    }
  }
}
