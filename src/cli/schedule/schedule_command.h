#pragma once
namespace CLI {
class App;
}

namespace chimera::cli {

// chimera schedule show, verify, simulate, compare: needs neither GPU nor MPI.
void add_schedule_command(CLI::App& app);

}  // namespace chimera::cli
