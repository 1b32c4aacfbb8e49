#include "commands.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "chimera/base/file.h"
#include "chimera/base/program_files.h"
#include "chimera/base/threads.h"
#include "chimera/bench/layout_steps.h"
#include "chimera/plan/calibration.h"
#include "chimera/plan/search.h"
#include "chimera/setup/config_check.h"
#include "chimera/setup/config_file.h"
#include "chimera/tensor/half.h"
#include "memory_table.h"
#include "model_option.h"

namespace chimera::cli {
namespace {

struct Arguments {
  std::string model, cluster, calibration, transport = "local", memory, output, precision;
  Index measured_steps = 0, devices = 0;
  plan::SearchRequest search;
};

// "16GiB", "16 GB", "17179869184".
Index parse_bytes(const std::string& text) {
  std::size_t used = 0;
  double number = 0;
  try {
    number = std::stod(text, &used);
  } catch (const std::exception&) {
    used = 0;
  }
  std::string unit = text.substr(used);
  unit.erase(0, unit.find_first_not_of(' '));
  const std::pair<const char*, double> units[] = {{"", 1},         {"B", 1},       {"MB", 1e6},
                                                  {"GB", 1e9},     {"TB", 1e12},   {"MiB", 0x1p20},
                                                  {"GiB", 0x1p30}, {"TiB", 0x1p40}};
  for (const auto& [name, factor] : units)
    if (used > 0 && unit == name && number * factor >= 1 && number * factor <= 1e15)
      return static_cast<Index>(number * factor);
  FailUsage("--memory ", text, " is no amount of memory; write 16GiB, 16GB or a number of bytes");
}

std::string shipped_clusters() {
  std::vector<std::string> names;
  std::error_code none;  // where the program was copied without its data
  for (const auto& entry : std::filesystem::directory_iterator(program_file("clusters"), none))
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem().string());
  std::ranges::sort(names);
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "" : ", ") + name;
  return out.empty() ? concat("the clusters in ", program_file("clusters").string()) : out;
}

// A file, or the name of one that comes with the program (configs/clusters).
plan::Cluster cluster_option(const std::string& name) {
  if (std::filesystem::exists(name)) return plan::read_cluster(name);
  const std::string shipped = program_file("clusters/" + name + ".json").string();
  if (std::filesystem::exists(shipped)) return plan::read_cluster(shipped);
  FailUsage("--cluster ", name, " is no file, and none of ", shipped_clusters(),
            "; see configs/clusters/README.md, or use --calibration for this machine");
}

// What `chimera train` runs: `base` with the layout of a candidate.
Config with_layout(Config base, const plan::Candidate& c) {
  ParallelConfig& p = base.parallel;
  p.request = c.request;
  p.micro_batch_size = c.samples;
  p.recompute = c.recompute;
  p.stage_layers = c.layers;
  return base;
}

// The whole of a configuration that could train; of a model alone, what is missing filled in.
Config base_config(const Arguments& a) {
  const Config model = model_option(a.model, a.search.T);
  Config base;
  base.preset = model.preset;
  const bool file = std::filesystem::exists(a.model);
  if (file && read_json(a.model, JsonComments::Allow).contains("train")) {
    base = load_config(a.model, {});
  } else {
    base.data.train = {{{"data/train-*.bin"}, 1}};
    base.train.steps = 1000;
    // Neither old weights nor overlapping steps know the global norm in time.
    if (a.search.stale || a.search.overlap_steps) base.optimizer.grad_clip = 0;
  }
  base.model = model.model;
  base.data.sequence_length = model.sequence_length();
  if (!a.precision.empty()) base.precision.compute = a.precision;
  return base;
}

void write_winner(const Arguments& a, const Config& base, const plan::Ranked& best) {
  const Config config = with_layout(base, best.candidate);
  write_file_atomically(a.output, config_to_json(config).dump(2) + "\n");
  std::cout << "wrote " << a.output << ": " << plan::describe(best.candidate)
            << (config.data.train.front().files.front() == "data/train-*.bin"
                    ? "; set data.train and train.steps in it"
                    : "")
            << "\n";
}

// Each of the ranked layouts run for real, beside what was predicted.
void print_measured(const Config& base, const std::vector<plan::Ranked>& ranked, Index steps) {
  std::cout << "measured on this machine, the fastest of " << steps << " steps each\n"
            << "predicted ms  measured ms  predicted/measured  layout\n";
  std::vector<double> ratios;
  for (const plan::Ranked& r : ranked) {
    const double seconds = bench::measure_step_seconds(with_layout(base, r.candidate), steps);
    ratios.push_back(r.seconds / seconds);
    char numbers[80];
    std::snprintf(numbers, sizeof numbers, "%12.1f %12.1f %19.3f  ", 1e3 * r.seconds, 1e3 * seconds,
                  ratios.back());
    std::cout << numbers << plan::describe(r.candidate) << std::endl;
  }
  double worst = 0, sum = 0;
  for (const double ratio : ratios) {
    worst = std::max(worst, std::abs(ratio - 1));
    sum += std::abs(ratio - 1);
  }
  char text[100];
  std::snprintf(text, sizeof text, "error: mean %.1f %%, worst %.1f %%\n",
                100 * sum / static_cast<double>(ratios.size()), 100 * worst);
  std::cout << text;
}

// After "times estimated", of 16-bit types: what is known of them.
std::string precision_text(const plan::SearchRequest& s, bool estimated) {
  if (s.type == DType::F32) return "";
  if (estimated && s.cluster.peak_flops_16bit > 0) return " for " + to_string(s.type);
  return concat(" for F32 (memory and messages are ", to_string(s.type),
                "'s; no rate of 16-bit products is known)");
}

// Without --workers: the layout of the configuration itself, on devices of so much memory.
void run_memory(const Arguments& a) {
  if (!std::filesystem::exists(a.model))
    FailUsage("--workers and --batch are missing; or, for the memory of a layout that is given, ",
              "--model must be a configuration's file, and is ", a.model);
  if (a.memory.empty() == a.cluster.empty())
    FailUsage("without --workers the layout of ", a.model,
              " is looked at: give either --memory or --cluster, which say what a device has");
  Config config = load_config(a.model, {});
  if (a.search.T > 0) config.data.sequence_length = a.search.T;
  if (!a.precision.empty()) config.precision.compute = a.precision;
  check_memory_of(config, a.devices,
                  a.memory.empty() ? static_cast<Index>(cluster_option(a.cluster).memory_bytes)
                                   : parse_bytes(a.memory));
}

void run(Arguments& a) {
  if (a.search.workers == 0 && a.search.batch == 0) return run_memory(a);
  if (a.search.workers == 0 || a.search.batch == 0)
    FailUsage("--workers and --batch go together; ",
              a.search.workers == 0 ? "--workers" : "--batch", " is missing");
  if (a.devices > 0) FailUsage("--devices is for the memory of a given layout: without --workers");
  if (a.cluster.empty() == a.calibration.empty())
    FailUsage("give either --cluster, or --calibration for this machine",
              a.cluster.empty() ? "" : ", not both");
  if (!a.output.empty()) check_writable(a.output);
  Config base = base_config(a);
  plan::SearchRequest& s = a.search;
  s.model = base.model;
  s.T = base.sequence_length();
  s.type = parse_compute_type(base.precision.compute);
  if (!a.memory.empty()) s.memory = parse_bytes(a.memory);
  plan::Calibration calibration;
  if (a.calibration.empty()) {
    s.cluster = cluster_option(a.cluster);
    s.times = [&s](Index B) { return plan::estimated_times(s.cluster, s.model, B, s.T, s.type); };
  } else {
    calibration = plan::read_calibration(a.calibration);
    s.cluster = plan::cluster_of(calibration, a.transport);
    base.parallel.calibration = std::filesystem::absolute(a.calibration).string();
    s.measured = true;
    base.device.threads = calibration.steps.front().threads;
    s.times = [&](Index B) { return plan::measured_times(calibration, s.model, B, s.T); };
  }
  s.refuse = [&base](const plan::Candidate& c) {
    const std::vector<ConfigProblem> problems = check_config(with_layout(base, c));
    return problems.empty() ? std::string() : problems.front().text;
  };
  set_team_size(available_cores());
  const plan::SearchResult result = plan::search(s);
  std::cout << "P " << s.workers << ", batch " << s.batch << " x " << s.T << " tokens, "
            << model::parameter_count(s.model) << " parameters, on " << s.cluster.name << " ("
            << s.cluster.device << "), times " << (a.calibration.empty() ? "estimated" : "measured")
            << precision_text(s, a.calibration.empty()) << "\n"
            << plan::report(s, result);
  if (result.ranked.empty())
    Fail(
        "no layout can be run; the reasons stand above: where it is memory, allow recomputation "
        "and "
        "ZeRO, or use more workers; where it is a division, another --batch or --workers");
  if (a.measured_steps > 0) {
    if (a.calibration.empty())
      FailUsage(
          "--measure runs layouts on this machine, but --cluster plans for another; use "
          "--calibration");
    print_measured(base, result.ranked, a.measured_steps);
  }
  if (!a.output.empty()) write_winner(a, base, result.ranked.front());
}

void add_what_is_planned(CLI::App& command, Arguments& a) {
  command
      .add_option(
          "--model", a.model,
          "preset, or a JSON file with a section `model` (a whole configuration gives -o the "
          "rest)")
      ->required();
  command.add_option("--cluster", a.cluster, shipped_clusters() + ", or a file");
  command.add_option("--calibration", a.calibration,
                     "this machine, as `chimera bench ... --save` measured it");
  command.add_option("--transport", a.transport, "whose measured messages count: local or mpi")
      ->check(CLI::IsMember({"local", "mpi"}))
      ->capture_default_str();
  command.add_option("--workers", a.search.workers, "P = D * W")
      ->check(CLI::Range(Index{1}, Index{1} << 24));
  command.add_option("--batch", a.search.batch, "sequences per step, B * N * W")
      ->check(CLI::Range(Index{1}, Index{1} << 32));
  command
      .add_option("--devices", a.devices,
                  "without --workers: devices that the configuration's workers share; 0: one each")
      ->check(CLI::Range(Index{0}, Index{1} << 24))
      ->capture_default_str();
  command.add_option("--sequence", a.search.T, "tokens per sequence; 0: the model's")
      ->check(CLI::Range(Index{0}, Index{1} << 24))
      ->capture_default_str();
  command.add_option("--memory", a.memory, "of a worker: 16GiB, 40GB; default: the cluster's");
  command
      .add_option("--precision", a.precision,
                  "fp32, bf16, fp16; default: the configuration's, or fp32")
      ->check(CLI::IsMember({"fp32", "bf16", "fp16"}));
}

void add_choices(CLI::App& command, Arguments& a) {
  command.add_option("--schedule", a.search.schedules, "only these")->delimiter(',');
  command.add_option("--recompute", a.search.recompute, "only these: none, selective, full")
      ->check(CLI::IsMember({"none", "selective", "full"}))
      ->delimiter(',');
  command.add_option("--zero", a.search.zero_stages, "only these: 0, 1")
      ->check(CLI::Range(0, 1))
      ->delimiter(',');
  command.add_flag("--stale", a.search.stale, "also schedules that compute with old weights");
  command.add_flag("--overlap-steps", a.search.overlap_steps,
                   "also steps without a barrier (slow to search)");
  command.add_option("--top", a.search.top, "how many to show; these are the best of all")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command
      .add_option("--simulations", a.search.most_simulations,
                  "most layouts to simulate before giving up on proving that")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  command
      .add_option("--measure", a.measured_steps,
                  "also run those shown for so many steps each on this machine")
      ->check(CLI::Range(1, 100000));
  command.add_option("-o,--output", a.output, "write the best as a configuration for `train`");
}

}  // namespace

void add_plan_command(CLI::App& app) {
  auto arguments = std::make_shared<Arguments>();
  arguments->search.workers = arguments->search.batch = 0;  // not given
  CLI::App* command = app.add_subcommand(
      "plan", "Rank layouts by predicted time and memory; no GPU, no MPI, no data");
  add_what_is_planned(*command, *arguments);
  add_choices(*command, *arguments);
  command->footer(
      "Without --workers and --batch: the memory of the configuration's own layout, whether it "
      "fits, "
      "and what would.\n"
      "step ms is simulated over the very program that would run; Eq. 1 is the paper's formula.\n"
      "Examples:\n"
      "  chimera plan --model gpt2-1.3b --cluster piz-daint --workers 512 --batch 512 --sequence "
      "632\n"
      "  chimera plan --model configs/gpt2-1.3b-chimera-d32.json --memory 16GB\n"
      "  chimera plan --model run.json --calibration calibration.json --workers 2 --batch 8 -o "
      "best.json");
  command->callback([arguments] { run(*arguments); });
}

}  // namespace chimera::cli
