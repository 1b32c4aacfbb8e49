#pragma once
namespace CLI {
class App;
}

namespace chimera::cli {

// chimera plan: which layout to use, before a node-hour is spent.
void add_plan_command(CLI::App& app);

}  // namespace chimera::cli
