// `chimera bench gpu`: the GPU's ops, and whole training steps on one GPU and on all.
#include "bench/benchmarks.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "chimera/base/file.h"
#include "chimera/base/threads.h"
#include "chimera/bench/gpu_steps.h"
#include "chimera/ops/gpu_bench.h"
#include "chimera/tensor/half.h"

namespace chimera::cli {
namespace {

using Json = nlohmann::ordered_json;

// Small enough for the emulator, where times mean nothing and results must be right.
const BenchModel kTiny{"tiny, B 2 T 33", 2, 33, 2, 48, 97};
const GpuBenchSettings kTinySettings{.rounds = 1,
                                     .head_bytes = 16000,
                                     .cold_bytes = 4096,
                                     .copy_bytes = Index{1} << 16,
                                     .product_size = 64};

struct OpsArguments {
  std::vector<std::string> models{"all"}, types{"bf16", "fp32"};
  int rounds = 9, device = 0;
  std::string json;
};

// The models' names without their sizes: "gpt2-124m" of "gpt2-124m, B 16 T 1024".
std::string short_name(const BenchModel& m) { return m.name.substr(0, m.name.find_first_of(", ")); }

std::vector<std::string> model_names() {
  std::vector<std::string> names{"all", "tiny"};
  for (const BenchModel& m : gpu_bench_models()) names.push_back(short_name(m));
  return names;
}

Json to_json(const GpuBenchTable& t) {
  Json rows = Json::array();
  for (const GpuBenchRow& r : t.rows)
    rows.push_back({{"op", r.op},
                    {"size", r.detail},
                    {"seconds", r.seconds},
                    {r.products ? "flops_per_second" : "bytes_per_second", r.work / r.seconds},
                    {"of_limit", r.of_limit}});
  return {{"model", t.model},
          {"type", to_string(t.type)},
          {"device", t.device},
          {"limits",
           {{"bytes_per_second", t.limits.bytes},
            {"flops_per_second", t.limits.flops},
            {"product", t.limits.product}}},
          {"choices", t.choices},
          {"rows", rows}};
}

void bench_ops(const OpsArguments& a) {
  if (!a.json.empty()) check_writable(a.json);
  set_team_size(available_cores());
  const auto device = make_cuda_device(a.device);
  const auto wanted = [&](const std::string& name) {
    return std::ranges::find(a.models, name) != a.models.end();
  };
  std::vector<BenchModel> models;
  for (const BenchModel& m : gpu_bench_models())
    if (wanted("all") || wanted(short_name(m))) models.push_back(m);
  if (wanted("tiny")) models.push_back(kTiny);
  Json tables = Json::array();
  for (const std::string& type : a.types)
    for (const BenchModel& m : models) {
      GpuBenchSettings settings = m.name == kTiny.name ? kTinySettings : GpuBenchSettings();
      settings.rounds = a.rounds;
      const GpuBenchTable table = bench_gpu_ops(*device, m, parse_compute_type(type), settings);
      std::cout << gpu_table_text(table) << std::flush;
      tables.push_back(to_json(table));
      // After every table: what has been measured stays if the rest runs out of time.
      if (!a.json.empty()) write_file_atomically(a.json, tables.dump(1) + "\n");
    }
}

void add_ops(CLI::App& gpu) {
  auto a = std::make_shared<OpsArguments>();
  CLI::App* command =
      gpu.add_subcommand("ops",
                         "Every op compared with the CPU's result, then timed against what this "
                         "GPU copies and multiplies");
  command->add_option("models", a->models, "whose shapes")
      ->check(CLI::IsMember(model_names()))
      ->capture_default_str();
  command->add_option("--type", a->types, "types of computation")
      ->check(CLI::IsMember({"fp32", "bf16", "fp16"}))
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("--rounds", a->rounds, "medians of how many runs")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_option("--device", a->device, "number of the GPU")
      ->check(CLI::Range(0, 1023))
      ->capture_default_str();
  command->add_option("--json", a->json, "also write the numbers to this file");
  command->footer("Example:\n  chimera bench gpu ops gpt2-124m --type bf16 --json ops.json");
  command->callback([a] { bench_ops(*a); });
}

void add_steps(CLI::App& gpu) {
  auto a = std::make_shared<bench::GpuStepArguments>();
  CLI::App* command = gpu.add_subcommand(
      "step", "Whole training steps on one GPU and on all: tokens per second, MFU");
  std::vector<std::string> names{"all"};
  for (const std::string& name : bench::gpu_step_models()) names.push_back(name);
  command->add_option("models", a->models, "which; all: but `tiny`")
      ->check(CLI::IsMember(names))
      ->capture_default_str();
  command->add_option("--type", a->type, "type of computation")
      ->check(CLI::IsMember({"fp32", "bf16", "fp16"}))
      ->capture_default_str();
  command->add_option("--steps", a->steps, "counted steps; two more come first")
      ->check(CLI::Range(Index{1}, Index{10000}))
      ->capture_default_str();
  command
      ->add_option("--micro-batch", a->samples, "B; 0: the largest power of two up to 32 that fits")
      ->check(CLI::Range(Index{0}, Index{4096}))
      ->capture_default_str();
  command->add_option("--micro-batches", a->micro_batches, "N")
      ->check(CLI::Range(Index{1}, Index{4096}))
      ->capture_default_str();
  command->add_option("--json", a->json, "also write the numbers to this file");
  command->footer("Example:\n  chimera bench gpu step gpt2-1558m --json steps.json");
  command->callback([a] { bench::run_gpu_steps(*a); });
}

}  // namespace

void add_gpu_benchmarks(CLI::App& bench) {
  CLI::App* gpu = bench.add_subcommand("gpu", "Measure a GPU: its ops, and whole training steps");
  gpu->require_subcommand(1);
  gpu->footer("Example:\n  chimera bench gpu step gpt2-124m");
  add_ops(*gpu);
  add_steps(*gpu);
}

}  // namespace chimera::cli
