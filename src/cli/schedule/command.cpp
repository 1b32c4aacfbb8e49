#include <CLI/CLI.hpp>

#include "commands.h"
#include "schedule/options.h"

namespace chimera::cli {

void add_schedule_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "schedule", "Draw, prove, time and compare pipeline schedules; no GPU, no MPI");
  command->require_subcommand(1);
  command->footer(schedules_help() + "Example:\n  chimera schedule show -s chimera -D 8 -N 16");
  const auto options = std::make_shared<ScheduleOptions>();
  add_show_command(*command, options);
  add_verify_command(*command, options);
  add_simulate_command(*command, options);
  add_compare_command(*command, options);
  add_paper_command(*command);
  add_tradeoff_command(*command, options);
}

}  // namespace chimera::cli
