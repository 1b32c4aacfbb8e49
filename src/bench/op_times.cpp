#include "chimera/bench/op_times.h"

#include "chimera/base/stopwatch.h"
#include "chimera/base/threads.h"
#include "chimera/bench/layout_steps.h"
#include "chimera/runtime/worker.h"

namespace chimera::bench {

OpTimes measure_ops(const Config& config, Index steps) {
  const Programs programs = build_programs(config);
  SyntheticSamples samples(config.sequence_length(), config.model.vocab_size);
  OpTimes out;
  run_local(1, 3600, team_size(), [&](Communicator& comm) {
    Backend backend = host_backend();
    backend.ops->add_interceptor(make_op_timer(out.ops));
    Worker worker(
        config, programs, comm, [] { return false; }, std::move(backend));
    worker.initialize_weights();
    worker.train_step(samples, 0);  // not counted: pages are touched, primitives made
    out.ops.clear();
    for (Index step = 1; step <= steps; ++step) {
      const Stopwatch watch;
      worker.train_step(samples, step);
      out.seconds.push_back(watch.seconds());
    }
  });
  return out;
}

}  // namespace chimera::bench
