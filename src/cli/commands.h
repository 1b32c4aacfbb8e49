#pragma once
// The commands of `chimera`: each adds its options, its help and what it does.
namespace CLI {
class App;
}

namespace chimera::cli {

// `exit_code` is set by commands that end well without being done (3: stopped by a signal).
void add_train_command(CLI::App& app, int& exit_code);
void add_eval_command(CLI::App& app);
void add_generate_command(CLI::App& app);
void add_tokenizer_command(CLI::App& app);   // train, encode, decode, info
void add_data_command(CLI::App& app);        // prepare, info
void add_schedule_command(CLI::App& app);    // schedule/: needs neither GPU nor MPI
void add_plan_command(CLI::App& app);        // which layout to use, before a node-hour is spent
void add_config_command(CLI::App& app);      // explain, resolve
void add_checkpoint_command(CLI::App& app);  // info, verify
void add_bench_command(CLI::App& app);       // bench/
void add_info_command(CLI::App& app);

}  // namespace chimera::cli
