// Overflow of gradients under fp16: wherever it happens, every worker leaves the step out.
#include <atomic>
#include <limits>
#include <mutex>

#include "chimera/tensor/half.h"
#include "support/golden.h"
#include "support/support.h"

using namespace chimera;
using namespace chimera::test;
using chimera::Worker;

namespace {

// Spoils gradients of biases once it is armed.
class Overflowing final : public OpInterceptor {
 public:
  explicit Overflowing(const bool& armed) : armed_(armed) {}
  void run(const OpCall& op, const std::function<void()>& call) override {
    call();
    if (armed_ && op.name == std::string("bias backward"))
      op.operands[0].tensor->f32()[0] = std::numeric_limits<float>::infinity();
  }

 private:
  const bool& armed_;
};

// Everything that a step may change, by parameter and worker.
std::vector<float> state_of(Worker& worker) {
  std::vector<float> out;
  worker.for_each_parameter([&](const Worker::Entry& e) {
    for (const Tensor& t : {e.weight, e.master, e.m, e.v}) {
      out.resize(out.size() + static_cast<std::size_t>(t.size()));
      if (t.size() > 0) widen(out.data() + out.size() - t.size(), t);
    }
  });
  return out;
}

struct Run {
  std::vector<std::vector<StepResult>> results;  // by worker, of each step
  std::vector<bool> kept;                        // by worker: step 1 changed nothing
  std::vector<double> scales;                    // by worker, at the end
};

// Steps 0, 1 and 2; in step 1 worker `where` has an infinite gradient.
Run run_with_overflow(const GoldenModel& model, const Config& config, int where) {
  const Programs programs = build_programs(config);
  const checkpoint::SafetensorsFile source(model.folder() + "/model.safetensors");
  const auto n = static_cast<std::size_t>(config.workers());
  Run run{std::vector<std::vector<StepResult>>(n), std::vector<bool>(n), std::vector<double>(n)};
  std::mutex mutex;
  run_local(static_cast<int>(n), 60, 1, [&](Communicator& comm) {
    bool armed = false;
    Backend backend = host_backend();
    backend.ops->add_interceptor(std::make_unique<Overflowing>(armed));
    Worker worker(
        config, programs, comm, [] { return false; }, std::move(backend));
    read_golden_weights(worker, source);
    GoldenSamples samples(model);
    std::vector<StepResult> results{worker.train_step(samples, 0)};
    const std::vector<float> before = state_of(worker);
    armed = comm.rank() == where;
    results.push_back(worker.train_step(samples, 1));
    armed = false;
    const bool kept = state_of(worker) == before;
    results.push_back(worker.train_step(samples, 2));
    const std::lock_guard lock(mutex);
    const auto rank = static_cast<std::size_t>(comm.rank());
    run.results[rank] = results;
    run.kept[rank] = kept;
    run.scales[rank] = worker.loss_scale().value();
  });
  return run;
}

Config fp16(const GoldenModel& model, const std::string& schedule, Index depth, Index width,
            int zero) {
  Config config = with_layout(model.config("rich"), schedule, depth, width, 2, model.batch());
  config.precision.compute = "fp16";
  config.parallel.request.zero_stage = zero;
  return config;
}

}  // namespace

TEST_CASE("an overflow on any one worker: no worker applies the step, all halve the scale") {
  const GoldenModel model("untied");
  for (const auto& [schedule, depth, width, zero] :
       {std::tuple{"1f1b", 2, 1, 0}, {"1f1b", 2, 2, 1}, {"chimera", 2, 2, 0}}) {
    const Config config = fp16(model, schedule, depth, width, zero);
    for (int where = 0; where < narrow<int>(config.workers()); ++where) {
      INFO(schedule << " D=" << depth << " W=" << width << ", overflow on worker " << where);
      const Run run = run_with_overflow(model, config, where);
      for (std::size_t w = 0; w < run.results.size(); ++w) {
        const std::vector<StepResult>& steps = run.results[w];
        CHECK_FALSE(steps[0].skipped);
        CHECK(steps[1].skipped);
        CHECK_FALSE(std::isfinite(steps[1].grad_norm));
        CHECK(std::isfinite(steps[1].loss));
        CHECK_FALSE(steps[2].skipped);
        CHECK(steps[1].loss_scale == 65536);  // the scale that the step was computed with
        CHECK(steps[2].loss_scale == 32768);
        CHECK(run.scales[w] == 32768);
        CHECK(run.kept[w]);
        CHECK(steps[2].loss == run.results[0][2].loss);
        CHECK(steps[2].grad_norm == run.results[0][2].grad_norm);
      }
    }
  }
}

// A power of two changes no bit until something overflows or vanishes below fp16's range.
TEST_CASE("the scale is a power of two, so it changes losses and norms by less than rounding") {
  const GoldenModel model("tied");
  Config config = fp16(model, "1f1b", 2, 1, 0);
  const Outcome dynamic = run_layout(model, config, 4);
  config.precision.loss_scale = "16384";
  const Outcome fixed = run_layout(model, config, 4);
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(dynamic.steps[i].loss_scale == 65536);
    CHECK(fixed.steps[i].loss_scale == 16384);
    CHECK(fixed.steps[i].loss == Approx(dynamic.steps[i].loss).epsilon(1e-3));
    CHECK(fixed.steps[i].grad_norm == Approx(dynamic.steps[i].grad_norm).epsilon(1e-3));
  }
}

TEST_CASE("an overflow that no lower scale can help ends the job") {
  const GoldenModel model("untied");
  Config fixed = fp16(model, "1f1b", 2, 1, 0);
  fixed.precision.loss_scale = "1024";
  CHECK_THROWS_WITH(run_with_overflow(model, fixed, 1),
                    Catch::Contains("is not finite") && Catch::Contains("no worker applied"));
  Config bf16 = fp16(model, "1f1b", 2, 1, 0);
  bf16.precision.compute = "bf16";
  CHECK_THROWS_WITH(run_with_overflow(model, bf16, 0), Catch::Contains("is not finite"));
}

// Once at 1 the scale cannot be halved.
TEST_CASE("overflows in a row halve the scale to 1, then the job ends") {
  const GoldenModel model("untied");
  const Config config = fp16(model, "1f1b", 2, 1, 0);
  const Programs programs = build_programs(config);
  const checkpoint::SafetensorsFile source(model.folder() + "/model.safetensors");
  std::atomic<int> skipped = 0;
  CHECK_THROWS_WITH(run_local(2, 60, 1,
                              [&](Communicator& comm) {
                                const bool armed = comm.rank() == 1;
                                Backend backend = host_backend();
                                backend.ops->add_interceptor(std::make_unique<Overflowing>(armed));
                                Worker worker(
                                    config, programs, comm, [] { return false; },
                                    std::move(backend));
                                read_golden_weights(worker, source);
                                GoldenSamples samples(model);
                                for (Index step = 0; step < 20; ++step)
                                  skipped += worker.train_step(samples, step).skipped ? 1 : 0;
                              }),
                    Catch::Contains("is not finite"));
  CHECK(skipped == 2 * 16);  // 65536 is 2^16
}
