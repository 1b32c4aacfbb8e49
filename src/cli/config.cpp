// chimera config explain, resolve
#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

#include "chimera/setup/config_file.h"
#include "commands.h"

namespace chimera::cli {

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
