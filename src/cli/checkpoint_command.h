#pragma once
namespace CLI {
class App;
}

namespace chimera::cli {

// chimera checkpoint info DIR, chimera checkpoint verify DIR.
void add_checkpoint_command(CLI::App& app);

}  // namespace chimera::cli
