#pragma once
#include <functional>

namespace CLI {
class App;
}

namespace chimera::cli {

// chimera bench p2p, chimera bench allreduce: added to the command `bench`. They run as threads, or
// on the ranks of mpirun or srun.
void add_comm_benchmarks(CLI::App& bench);
// Adds --model and what goes with it to `bench step`: the pieces of a model for the planner. The
// result runs them, and returns false when --model was not given.
std::function<bool()> add_pieces_options(CLI::App& step);

}  // namespace chimera::cli
