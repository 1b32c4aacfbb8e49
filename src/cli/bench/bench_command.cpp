#include "bench_command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <iostream>
#include <memory>

#include "chimera/base/threads.h"
#include "bench_comm_command.h"
#include "bench_kernels_command.h"
#include "chimera/ops/machine_limits.h"
#include "chimera/ops/op_times.h"
#include "chimera/train/metrics.h"
#include "chimera/runtime/worker.h"
#include "bench_gpu_command.h"
#include "bench_schedule_command.h"
#include "chimera/bench/measure_layout.h"

namespace chimera::cli {
namespace {

struct StepCase {
  std::string name;
  Index B, T, steps;
  model::ModelConfig model;
};

model::ModelConfig shape(Index L, Index H, Index C, Index P, Index V) {
  model::ModelConfig m;
  m.n_layer = L, m.n_head = H, m.n_embd = C, m.n_positions = P, m.vocab_size = V;
  m.embd_pdrop = m.attn_pdrop = m.resid_pdrop = 0;
  return m;
}

std::vector<StepCase> known_cases() {
  const model::ModelConfig quickstart = shape(4, 4, 160, 128, 4096),
                           small = shape(12, 12, 768, 1024, 50257);
  return {{"quickstart", 8, 128, 20, quickstart},
          {"gpt2-124m-t64", 4, 64, 5, small},
          {"gpt2-124m-t1024", 1, 1024, 3, small}};
}

void bench_step(const StepCase& c, Index steps, const MachineLimits& limits) {
  Config config;
  config.model = c.model;
  config.data.sequence_length = c.T;
  config.parallel.micro_batch_size = c.B;
  config.train.steps = 1000;
  const Programs programs = build_programs(config);
  bench::MeaninglessSamples samples(c.T, c.model.vocab_size);
  std::map<std::string, OpTime> times;
  std::vector<double> seconds;
  run_local(1, 3600, team_size(), [&](Communicator& comm) {
    Backend backend = host_backend();
    backend.ops->add_interceptor(make_op_timer(times));
    Worker worker(config, programs, comm, [] { return false; }, std::move(backend));
    worker.initialize_weights();
    worker.train_step(samples, 0);  // not counted: pages are touched, primitives made
    times.clear();
    for (Index step = 1; step <= steps; ++step) {
      const auto start = std::chrono::steady_clock::now();
      worker.train_step(samples, step);
      seconds.push_back(
          std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
  });
  double total = 0;
  for (const double s : seconds) total += s;
  std::ranges::sort(seconds);
  const double median = seconds[seconds.size() / 2], tokens = static_cast<double>(c.B * c.T);
  const double flops = model::flops_per_token(c.model, c.T, false) * tokens;
  std::printf(
      "\n### %s: B %ld, T %ld, %ld steps\n\nmedian %.1f ms, %s tokens/s, %.1f %% of the FMA limit "
      "(full convention)\n\n",
      c.name.c_str(), static_cast<long>(c.B), static_cast<long>(c.T), static_cast<long>(steps),
      1e3 * median, train::human_count(tokens / median).c_str(),
      100 * flops / median / limits.flops);
  std::printf("| op | share of the step | ms per step | of the limit |\n|---|---:|---:|---:|\n");
  double inside = 0;
  for (const auto& [name, time] : times) {
    inside += time.seconds;
    std::printf("| %s | %.1f %% | %.2f | ", name.c_str(), 100 * time.seconds / total,
                1e3 * time.seconds / static_cast<double>(steps));
    if (time.flops > 0)
      std::printf("%.0f %% of FMA peak", 100 * time.flops / time.seconds / limits.flops);
    std::printf(" |\n");
  }
  std::printf("| outside the ops | %.1f %% | %.2f | |\n", 100 * (total - inside) / total,
              1e3 * (total - inside) / static_cast<double>(steps));
  std::fflush(stdout);
}

void add_step_benchmark(CLI::App& bench) {
  struct Arguments {
    std::string name = "all";
    Index steps = 0;
  };
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command =
      bench.add_subcommand("step", "Whole training steps, with each op's share of the time");
  std::vector<std::string> names{"all"};
  for (const StepCase& c : known_cases()) names.push_back(c.name);
  command->add_option("model", arguments->name, "which shape")
      ->check(CLI::IsMember(names))
      ->capture_default_str();
  command->add_option("--steps", arguments->steps, "counted steps; 0: enough for a median")
      ->check(CLI::Range(0, 100000));
  const std::function<bool()> pieces = add_pieces_options(*command);
  command->footer(
      "Examples:\n  chimera bench step quickstart --steps 50\n"
      "  chimera bench step --model gpt2-124m --sequence 256 --save calibration.json");
  command->callback([arguments, pieces] {
    if (pieces()) return;
    set_team_size(available_cores());
    const MachineLimits limits = measure_machine_limits();
    std::printf("machine limits (%d threads, %s): %.0f GFLOP/s multiply-add, %.1f GB/s triad\n",
                limits.threads, limits.isa.c_str(), limits.flops / 1e9, limits.bytes / 1e9);
    for (const StepCase& c : known_cases())
      if (arguments->name == "all" || arguments->name == c.name)
        bench_step(c, arguments->steps > 0 ? arguments->steps : c.steps, limits);
  });
}

}  // namespace

void add_bench_command(CLI::App& app) {
  CLI::App* bench = app.add_subcommand("bench", "Measure this machine and the kernels on it");
  bench->require_subcommand(1);
  bench->footer("Example:\n  chimera bench step quickstart");
  add_kernel_benchmarks(*bench);
  add_step_benchmark(*bench);
  add_schedule_benchmark(*bench);
  add_comm_benchmarks(*bench);
  add_gpu_benchmarks(*bench);
}

}  // namespace chimera::cli
