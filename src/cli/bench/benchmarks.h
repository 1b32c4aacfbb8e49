#pragma once
// The benchmarks that are added to the command `bench`.
#include <functional>

namespace CLI {
class App;
}

namespace chimera::cli {

void add_kernel_benchmarks(CLI::App& bench);  // gemm, attention
void add_step_benchmark(CLI::App& bench);
// schedule, p2p, allreduce: run as threads, or on the ranks of mpirun or srun.
void add_schedule_benchmark(CLI::App& bench);
void add_link_benchmarks(CLI::App& bench);
void add_gpu_benchmarks(CLI::App& bench);  // gpu ops, gpu step

// Adds --model and what goes with it to `bench step`: the parts of a model, for the planner. The
// result measures them, and returns false when --model was not given.
std::function<bool()> add_model_part_options(CLI::App& step);

}  // namespace chimera::cli
