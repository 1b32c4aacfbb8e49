// chimera bench step: whole training steps, by op.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>

#include "bench/benchmarks.h"
#include "chimera/base/format.h"
#include "chimera/base/threads.h"
#include "chimera/bench/op_times.h"
#include "chimera/ops/machine_limits.h"

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
  auto [seconds, times] = bench::measure_ops(config, steps);
  double total = 0;
  for (const double s : seconds) total += s;
  std::ranges::sort(seconds);
  const double median = seconds[seconds.size() / 2], tokens = static_cast<double>(c.B * c.T);
  const double flops = model::flops_per_token(c.model, c.T, false) * tokens;
  std::printf(
      "\n### %s: B %ld, T %ld, %ld steps\n\nmedian %.1f ms, %s tokens/s, %.1f %% of the FMA limit "
      "(full convention)\n\n",
      c.name.c_str(), static_cast<long>(c.B), static_cast<long>(c.T), static_cast<long>(steps),
      1e3 * median, human_count(tokens / median).c_str(), 100 * flops / median / limits.flops);
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

}  // namespace

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
  const std::function<bool()> model_parts = add_model_part_options(*command);
  command->footer(
      "Examples:\n  chimera bench step quickstart --steps 50\n"
      "  chimera bench step --model gpt2-124m --sequence 256 --save calibration.json");
  command->callback([arguments, model_parts] {
    if (model_parts()) return;
    set_team_size(available_cores());
    const MachineLimits limits = measure_machine_limits();
    std::printf("machine limits (%d threads, %s): %.0f GFLOP/s multiply-add, %.1f GB/s triad\n",
                limits.threads, limits.isa.c_str(), limits.flops / 1e9, limits.bytes / 1e9);
    for (const StepCase& c : known_cases())
      if (arguments->name == "all" || arguments->name == c.name)
        bench_step(c, arguments->steps > 0 ? arguments->steps : c.steps, limits);
  });
}

}  // namespace chimera::cli
