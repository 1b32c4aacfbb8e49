#pragma once
namespace CLI {
class App;
}

namespace chimera::cli {

// chimera bench schedule: added to the command `bench`. Also runs on the ranks of mpirun or srun.
void add_schedule_benchmark(CLI::App& bench);

}  // namespace chimera::cli
