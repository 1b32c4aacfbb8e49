#include "train_command.h"

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

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

void add_config_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("config", "What the keys of a configuration mean");
  command->require_subcommand(1);
  command->footer("Example:\n  chimera config explain parallel.");
  CLI::App* explain = command->add_subcommand(
      "explain", "Every key with default, accepted values and meaning, as a Markdown table");
  auto word = std::make_shared<std::string>();
  explain->add_option("word", *word, "only the lines that contain this");
  explain->footer("Example:\n  chimera config explain parallel.");
  explain->callback([word] {
    std::istringstream table(explain_config());
    int lines = 0;
    for (std::string line; std::getline(table, line);)
      if (lines < 2 || line.find(*word) != std::string::npos) {  // the heading has two lines
        std::cout << line << "\n";
        ++lines;
      }
    if (lines == 2)
      FailUsage("no key of the configuration has \"", *word,
                "\" in its line; without a word, all are shown");
  });
  CLI::App* resolve = command->add_subcommand(
      "resolve", "Check a configuration and print it with every key written out");
  auto path = std::make_shared<std::string>();
  auto overrides = std::make_shared<std::vector<std::string>>();
  resolve->add_option("config", *path, "JSON configuration")->required();
  resolve->add_option("--set", *overrides, "override: section.key=value")->allow_extra_args(false);
  resolve->footer(
      "Example:\n  chimera config resolve configs/quickstart.json --set parallel.depth=2");
  resolve->callback([path, overrides] {
    std::cout << config_to_json(load_config(*path, *overrides)).dump(2) << "\n";
  });
}

}  // namespace chimera::cli
