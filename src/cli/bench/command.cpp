#include <CLI/CLI.hpp>

#include "bench/benchmarks.h"
#include "commands.h"

namespace chimera::cli {

void add_bench_command(CLI::App& app) {
  CLI::App* bench = app.add_subcommand("bench", "Measure this machine and the kernels on it");
  bench->require_subcommand(1);
  bench->footer("Example:\n  chimera bench step quickstart");
  add_kernel_benchmarks(*bench);
  add_step_benchmark(*bench);
  add_schedule_benchmark(*bench);
  add_link_benchmarks(*bench);
  add_gpu_benchmarks(*bench);
}

}  // namespace chimera::cli
