#include "bench/benchmarks.h"

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "chimera/base/threads.h"
#include "chimera/ops/kernel_bench.h"

namespace chimera::cli {
namespace {

struct KernelsArguments {
  BenchModel model{"", 0, 0, 0, 0, 0};  // all sizes 0: the models of bench_models()
  int threads = 0;
  BenchSettings settings;
};

std::vector<BenchModel> models_of(KernelsArguments a, bool heads) {
  const Index given =
      (a.model.B > 0) + (a.model.T > 0) + (a.model.C > 0) + (heads ? a.model.H > 0 : a.model.V > 0);
  if (given == 0) return bench_models();
  if (given != 4)
    FailUsage("a shape of your own needs all of --batch, --tokens, --width and ",
              heads ? "--heads" : "--vocabulary");
  if (heads && a.model.C % a.model.H != 0)
    FailUsage("--heads ", a.model.H, " does not divide --width ", a.model.C);
  a.model.name = concat("B ", a.model.B, " T ", a.model.T);
  return {a.model};
}

CLI::App* add(CLI::App& bench, const std::string& name, const std::string& about, bool heads,
              std::string (*table)(const BenchModel&, const BenchSettings&)) {
  auto arguments = std::make_shared<KernelsArguments>();
  KernelsArguments& a = *arguments;
  CLI::App* command = bench.add_subcommand(name, about);
  const auto size = [&](const char* option, Index& value, const char* help, Index most) {
    command->add_option(option, value, help)->check(CLI::Range(Index{1}, most));
  };
  size("--batch", a.model.B, "samples; without sizes: the models that the project ships", 4096);
  size("--tokens", a.model.T, "tokens of a sample", 1 << 17);
  size("--width", a.model.C, "channels", 1 << 16);
  if (heads)
    size("--heads", a.model.H, "heads", 1 << 10);
  else
    size("--vocabulary", a.model.V, "words of the head", 1 << 20);
  command->add_option("--threads", a.threads, "threads; 0: all cores")
      ->check(CLI::Range(0, 4096))
      ->capture_default_str();
  command->add_option("--isa", a.settings.isa, "auto, baseline, avx2 or avx512")
      ->capture_default_str();
  command->add_option("--rounds", a.settings.rounds, "medians of how many interleaved rounds")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->callback([arguments, heads, table] {
    const auto models = models_of(*arguments, heads);
    set_team_size(arguments->threads > 0 ? arguments->threads : available_cores());
    for (const BenchModel& m : models) std::cout << table(m, arguments->settings) << std::flush;
  });
  return command;
}

}  // namespace

void add_kernel_benchmarks(CLI::App& bench) {
  add(bench, "gemm", "Matrix products of the linear layers, as a share of the machine's limit",
      false, gemm_table)
      ->footer(
          "Example:\n  chimera bench gemm --batch 8 --tokens 128 --width 192 --vocabulary 4096");
  add(bench, "attention", "Attention forward and backward, as a share of the machine's limit", true,
      attention_table)
      ->footer(
          "Example:\n  chimera bench attention --batch 1 --tokens 1024 --width 768 --heads 12");
}

}  // namespace chimera::cli
