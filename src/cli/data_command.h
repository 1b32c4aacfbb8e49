#pragma once
namespace CLI {
class App;
}

namespace chimera::cli {

// chimera data prepare FILE..., info SHARD...
void add_data_command(CLI::App& app);

}  // namespace chimera::cli
