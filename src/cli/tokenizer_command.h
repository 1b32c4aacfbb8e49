#pragma once
namespace CLI {
class App;
}

namespace chimera::cli {

// chimera tokenizer train FILE..., encode FILE, decode ID..., info.
void add_tokenizer_command(CLI::App& app);

}  // namespace chimera::cli
