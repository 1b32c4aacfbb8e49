#pragma once

namespace CLI {
class App;
}

namespace chimera::cli {

// chimera schedule paper: the Chimera paper's tables and figures beside ours.
void add_paper_command(CLI::App& schedule);

}  // namespace chimera::cli
