// chimera info: the build, the machine, and what a configuration would take of it.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>
#include <memory>

#include "chimera/base/format.h"
#include "chimera/plan/footprint.h"
#include "chimera/setup/build_identity.h"
#include "chimera/setup/config_file.h"
#include "chimera/setup/programs.h"
#include "commands.h"
#include "gpu_report.h"
#include "grouped.h"
#include "memory_table.h"

namespace chimera::cli {
namespace {

struct ConfigInfoArguments {
  std::string config;
  std::vector<std::string> overrides;
};

Index physical_memory() {
  return checked_mul(Index{sysconf(_SC_PHYS_PAGES)}, Index{sysconf(_SC_PAGESIZE)});
}

void print_config(const ConfigInfoArguments& a) {
  const Config c = load_config(a.config, a.overrides);
  const ParallelConfig& p = c.parallel;
  std::cout << "parameters     " << grouped(model::parameter_count(c.model)) << "\n"
            << "model          " << c.model.n_layer << " layers, " << c.model.n_embd << " wide, "
            << c.model.n_head << " heads, vocabulary " << c.model.vocab_size << ", "
            << (c.model.tied_embeddings ? "tied" : "untied") << "\n"
            << "batch          " << c.batch() << " x " << c.sequence_length() << " tokens (B "
            << p.micro_batch_size << ", N " << p.request.micro_batches << ", W " << p.request.width
            << ")\n"
            << "layout         " << p.request.schedule << ", D " << p.request.depth << ", "
            << c.workers() << " workers\n"
            << "stage layers  ";
  for (const Index layers : stage_layers(c)) std::cout << " " << layers;
  std::cout << std::endl;
  print_memory(c);
}

}  // namespace

void add_info_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "info", "What this build has, what it sees, and what a configuration takes");
  const auto arguments = std::make_shared<ConfigInfoArguments>();
  command->add_option("--config", arguments->config,
                      "a configuration: its parameters, batch and the memory of each worker; its "
                      "data need not exist");
  command->add_option("--set", arguments->overrides, "override: section.key=value")
      ->allow_extra_args(false);
  command->footer("Example:\n  chimera info --config configs/gpt2-1.3b-chimera-d32.json");
  command->callback([arguments] {
    if (arguments->config.empty() && !arguments->overrides.empty())
      FailUsage("--set is ", arguments->overrides.front(),
                "; it changes a configuration: give --config");
    std::cout << build_report() << gpu_report() << "memory         "
              << human_bytes(physical_memory(), 2) << " on this machine\n";
    if (!arguments->config.empty()) print_config(*arguments);
  });
}

}  // namespace chimera::cli
