#include "chimera/bench/layout_steps.h"

#include <algorithm>

#include "chimera/base/stopwatch.h"
#include "chimera/runtime/launch.h"
#include "chimera/runtime/worker.h"

namespace chimera::bench {

std::vector<double> measure_steps(const Config& config, Index steps) {
  constexpr Index kUncounted = 2;  // pages are touched, primitives made, pipelines filled
  ENSURE(steps >= 1, "the times of ", steps, " steps");
  const Programs programs = build_programs(config);
  std::vector<double> seconds;  // from step to step on the first worker
  run_local(
      narrow<int>(config.workers()), config.parallel.timeout_seconds,
      threads_per_worker(config, "local"), [&](Communicator& comm) {
        SyntheticSamples samples(config.sequence_length(), config.model.vocab_size);
        Worker worker(
            config, programs, comm, [] { return false; }, make_backend(config, programs, comm));
        worker.initialize_weights();
        Stopwatch watch;
        worker.train_steps(samples, 0, kUncounted + steps, [&](Index step, const StepResult&) {
          if (comm.rank() == 0 && step >= kUncounted) seconds.push_back(watch.seconds());
          watch.restart();
          return false;
        });
      });
  ENSURE(!seconds.empty(), "no step was run");
  return seconds;
}

double measure_step_seconds(Config config, Index steps) {
  config.device.kind = "cpu";
  return std::ranges::min(measure_steps(config, steps));
}

}  // namespace chimera::bench
