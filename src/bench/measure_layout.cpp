#include "chimera/bench/measure_layout.h"

#include <algorithm>
#include <chrono>

#include "chimera/runtime/launch.h"

namespace chimera::bench {

std::vector<double> measure_steps(const Config& config, Index steps) {
  constexpr Index kUncounted = 2;  // pages are touched, primitives made, pipelines filled
  ENSURE(steps >= 1, "the times of ", steps, " steps");
  const Programs programs = build_programs(config);
  std::vector<double> ends;  // of the steps on the first worker
  run_local(narrow<int>(config.workers()), config.parallel.timeout_seconds,
            threads_per_worker(config, "local"), [&](Communicator& comm) {
              MeaninglessSamples samples(config.sequence_length(), config.model.vocab_size);
              Worker worker(
                  config, programs, comm, [] { return false; },
                  make_backend(config, programs, comm));
              worker.initialize_weights();
              worker.train_steps(
                  samples, 0, kUncounted + steps, [&](Index, const StepResult&) {
                    const auto now = std::chrono::steady_clock::now();
                    if (comm.rank() == 0)
                      ends.push_back(std::chrono::duration<double>(now.time_since_epoch()).count());
                    return false;
                  });
            });
  std::vector<double> seconds;
  for (std::size_t i = kUncounted; i < ends.size(); ++i) seconds.push_back(ends[i] - ends[i - 1]);
  ENSURE(!seconds.empty(), "no step was run");
  return seconds;
}

double measure_step_seconds(Config config, Index steps) {
  config.device.kind = "cpu";
  return std::ranges::min(measure_steps(config, steps));
}

}  // namespace chimera::bench
