#include "chimera/bench/gpu_steps.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <numeric>

#include "chimera/base/file.h"
#include "chimera/base/format.h"
#include "chimera/base/threads.h"
#include "chimera/bench/layout_steps.h"
#include "chimera/device/cuda_info.h"
#include "chimera/setup/programs.h"

namespace chimera::bench {
namespace {

using Json = nlohmann::ordered_json;

struct Model {
  std::string name;
  model::ModelConfig config;
  Index T;
};

std::vector<Model> models() {
  std::vector<Model> list;
  for (const model::Preset& p : model::presets()) {
    Model m{p.name, {}, p.tied_embeddings ? 1024 : 632};
    model::apply_preset(m.config, p);
    list.push_back(m);
  }
  Model tiny{"tiny", {}, 32};
  tiny.config.n_layer = 2, tiny.config.n_head = 2, tiny.config.n_embd = 32;
  tiny.config.n_positions = 32, tiny.config.vocab_size = 97;
  list.push_back(tiny);
  for (Model& m : list) m.config.embd_pdrop = m.config.attn_pdrop = m.config.resid_pdrop = 0;
  return list;
}

// Dense operations per second by the data sheets, in the type of computation; 0 where the card is
// not known here. What MFU is relative to.
double nominal_peak(const std::string& card, const std::string& type) {
  struct Card {
    const char* name;
    double narrow, fp32;  // bf16 and fp16 on tensor cores; fp32 outside of them
  };
  constexpr Card kCards[] = {{"H200", 989.4e12, 66.9e12},
                             {"GH200", 989.4e12, 66.9e12},
                             {"H100 PCIe", 756e12, 51.2e12},
                             {"H100", 989.4e12, 66.9e12},
                             {"A100", 312e12, 19.5e12}};
  for (const Card& c : kCards)
    if (card.find(c.name) != std::string::npos) return type == "fp32" ? c.fp32 : c.narrow;
  return 0;
}

Config configuration(const Model& m, const GpuStepArguments& a, Index gpus, Index samples) {
  Config c;
  c.model = m.config;
  c.data.sequence_length = m.T;
  c.device.kind = "cuda";
  c.precision.compute = a.type;
  c.parallel.request.width = narrow<int>(gpus);
  c.parallel.request.zero_stage = gpus > 1 ? 1 : 0;
  c.parallel.micro_batch_size = samples;
  c.parallel.request.micro_batches = narrow<int>(a.micro_batches);
  c.train.steps = 1000;
  return c;
}

// The largest B whose footprint leaves room for what is made beside it.
Index fitting_samples(const Model& m, const GpuStepArguments& a, Index gpus, Index free_bytes) {
  if (a.samples > 0) return a.samples;
  const Index room = free_bytes - free_bytes / 16 - (Index{1} << 30);
  for (Index samples = 32; samples > 1; samples /= 2) {
    const Config c = configuration(m, a, gpus, samples);
    if (footprints(c, build_programs(c)).front().bytes() <= room) return samples;
  }
  return 1;
}

Json measure(const Model& m, const GpuStepArguments& a, Index gpus, const CudaDeviceInfo& device) {
  const Index B = fitting_samples(m, a, gpus, device.free_bytes);
  const Config config = configuration(m, a, gpus, B);
  const std::vector<double> seconds = measure_steps(config, a.steps);
  const double mean =
      std::accumulate(seconds.begin(), seconds.end(), 0.0) / static_cast<double>(seconds.size());
  const double rate = static_cast<double>(config.batch() * m.T) / mean;
  const double peak = nominal_peak(device.name, a.type) * static_cast<double>(gpus);
  Json row{{"model", m.name},
           {"type", a.type},
           {"sequence", m.T},
           {"gpus", gpus},
           {"micro_batch_size", B},
           {"micro_batches", a.micro_batches},
           {"seconds", seconds},
           {"mean_seconds", mean},
           {"tokens_per_second", rate},
           {"flops_per_second_full", rate * model::flops_per_token(m.config, m.T, false)}};
  if (peak > 0) {
    row["nominal_flops_per_second"] = peak;
    row["mfu_full"] = rate * model::flops_per_token(m.config, m.T, false) / peak;
    row["mfu_half"] = rate * model::flops_per_token(m.config, m.T, true) / peak;
  }
  return row;
}

void print(const Json& row) {
  const auto number = [&](const char* key) { return row.at(key).get<double>(); };
  const auto share = [&](const char* key) {
    return row.contains(key) ? percent(number(key)) : "card unknown";
  };
  const double gpus = number("gpus"), seconds = number("mean_seconds");
  std::printf("| %s | %.0f | %.0f | %.0f | %.0f | %.1f | %s | %s | %s | %s | %.1f |\n",
              row.at("model").get<std::string>().c_str(), number("sequence"), gpus,
              number("micro_batch_size"), number("micro_batches"), 1e3 * seconds,
              human_count(number("tokens_per_second")).c_str(),
              human_count(number("tokens_per_second") / gpus).c_str(), share("mfu_full").c_str(),
              share("mfu_half").c_str(), 1e-12 * number("flops_per_second_full") / gpus);
  std::fflush(stdout);
}

}  // namespace

std::vector<std::string> gpu_step_models() {
  std::vector<std::string> names;
  for (const Model& m : models()) names.push_back(m.name);
  return names;
}

void run_gpu_steps(const GpuStepArguments& a) {
  if (!a.json.empty()) check_writable(a.json);
  const std::string problem = cuda_problem();
  ENSURE(problem.empty(), problem);
  const std::vector<CudaDeviceInfo> devices = cuda_devices();
  set_team_size(available_cores());
  std::printf(
      "\n%s on %s; MFU by the card's data sheet, of 6 N + 12 L C T (full) and 6 N + 6 L C T (half) "
      "operations per token\n\n"
      "| model | T | GPUs | B | N | ms per step | tokens/s | per GPU | MFU full | MFU half | "
      "TFLOP/s "
      "per GPU, full |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n",
      a.type.c_str(), devices.front().name.c_str());
  std::vector<Index> counts{1};
  if (devices.size() > 1) counts.push_back(std::ssize(devices));
  const auto wanted = [&](const std::string& name) {
    return std::ranges::find(a.models, name) != a.models.end();
  };
  Json rows = Json::array();
  for (const Index gpus : counts)
    for (const Model& m : models()) {
      if (!wanted(m.name) && (m.name == "tiny" || !wanted("all"))) continue;
      rows.push_back(measure(m, a, gpus, devices.front()));
      print(rows.back());
      if (!a.json.empty()) write_file_atomically(a.json, rows.dump(1) + "\n");
    }
}

}  // namespace chimera::bench
