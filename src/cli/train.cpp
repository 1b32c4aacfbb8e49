#include "commands.h"

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "chimera/setup/config_file.h"
#include "chimera/train/trainer.h"

namespace chimera::cli {

void add_train_command(CLI::App& app, int& exit_code) {
  struct Arguments {
    std::string config;
    std::vector<std::string> overrides;
    train::TrainOptions options;
  };
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand(
      "train", "Train a model; workers are threads, or the ranks of mpirun or srun");
  command
      ->add_option("config", arguments->config, "JSON configuration (see `chimera config explain`)")
      ->required();
  command
      ->add_option("--set", arguments->overrides,
                   "override a key of the configuration: section.key=value")
      ->allow_extra_args(false);
  command
      ->add_option(
          "--resume", arguments->options.resume,
          "auto: from the newest whole checkpoint of checkpoint.directory; never; or a checkpoint")
      ->capture_default_str();
  command->add_flag("--check", arguments->options.check,
                    "check everything, show the plan and its memory, train nothing");
  command->footer(
      "SIGINT, SIGTERM and SIGUSR1 end it after the step with a checkpoint and exit code 3; the "
      "same command "
      "continues.\nExamples:\n  chimera train configs/quickstart.json --set train.steps=100\n"
      "  mpirun -n 4 chimera train configs/quickstart.json");
  command->callback([arguments, &exit_code] {
    const Config config = load_config(arguments->config, arguments->overrides);
    exit_code = static_cast<int>(train::train(config, arguments->options));
  });
}

}  // namespace chimera::cli
