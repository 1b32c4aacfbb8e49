#pragma once
namespace CLI {
class App;
}

namespace chimera::cli {

// `exit_code` is set by commands that end well without being done (3: stopped by a signal).
void add_train_command(CLI::App& app, int& exit_code);
void add_eval_command(CLI::App& app);
void add_generate_command(CLI::App& app);
void add_info_command(CLI::App& app);
void add_config_command(CLI::App& app);

}  // namespace chimera::cli
