#include "memory_table.h"

#include <algorithm>
#include <cstdio>
#include <iostream>

#include "chimera/base/format.h"
#include "chimera/plan/footprint.h"
#include "chimera/setup/memory_check.h"
#include "chimera/setup/programs.h"

namespace chimera::cli {
namespace {

std::string in_gib(Index bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4f",
                static_cast<double>(bytes) / static_cast<double>(Index{1} << 30));
  return text;
}

}  // namespace

void print_memory(const Config& config) {
  const Programs programs = build_programs(config);
  const auto stages = plan::all_stage_bytes(shape_of(config), programs.train);
  std::printf("memory in GiB  %8s %10s %10s %10s %12s %12s %10s %11s %10s\n", "weights", "masters",
              "gradients", "moments", "boundary", "activations", "workspace", "reductions", "all");
  for (int w = 0; w < programs.train.depth; ++w) {
    const plan::WorkerFootprint f =
        plan::worker_footprint(stages, programs.train, &programs.evaluation, 0, w);
    std::printf("  worker %-6d%8s %10s %10s %10s %12s %12s %10s %11s %10s\n", w,
                in_gib(f.weights()).c_str(), in_gib(f.masters()).c_str(),
                in_gib(f.gradients()).c_str(), in_gib(f.moments()).c_str(),
                in_gib(checked_mul(f.boundary_buffers, f.boundary_buffer_bytes)).c_str(),
                in_gib(checked_mul(f.activation_buffers, f.activation_buffer_bytes)).c_str(),
                in_gib(f.workspace).c_str(), in_gib(f.reductions).c_str(),
                in_gib(f.bytes()).c_str());
  }
  std::fflush(stdout);
}

void check_memory_of(const Config& config, Index devices, Index bytes) {
  print_memory(config);
  const auto all = footprints(config, build_programs(config));
  const Index workers = config.workers(),
              used = devices == 0 ? workers : std::min(devices, workers);
  std::vector<int> fullest;
  Index most = 0;
  for (Index device = 0; device < used; ++device) {
    std::vector<int> ranks;  // as backends share GPUs out
    for (Index rank = device; rank < workers; rank += used) ranks.push_back(narrow<int>(rank));
    const Index needed = memory_needed(all, ranks);
    if (needed > most) most = needed, fullest = ranks;
  }
  const std::string asked =
      concat(workers, workers == 1 ? " worker" : " workers", " on ", used,
             used == 1 ? " device" : " devices", " of ", human_bytes(bytes, 2),
             ": the fullest holds ", fullest.size() == 1 ? "worker" : "workers");
  std::string who;
  for (const int rank : fullest) who += concat(" ", rank);
  std::cout << asked << who << " and needs " << human_bytes(most, 2)
            << ", kernels' scratch included" << std::endl;
  if (most > bytes) Fail("does not fit; ", what_would_fit(config, fullest, bytes));
  std::cout << "fits, " << human_bytes(bytes - most, 2) << " are left\n";
}

}  // namespace chimera::cli
