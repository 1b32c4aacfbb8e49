#include "chimera/setup/memory_check.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "chimera/base/format.h"
#include "chimera/setup/config_check.h"

namespace chimera {
namespace {

// Kernels' scratch, algorithms of products, graphs: what is made at first use.
constexpr Index kReserve = Index{512} << 20;

struct Change {
  std::string text;
  Config config;
  std::string group;  // of those with one group, the first that fits is enough; empty: alone
};

std::vector<Change> changes_of(const Config& config) {
  std::vector<Change> out;
  const auto add = [&](const std::string& text, const std::function<void(Config&)>& change) {
    Change next{text, config, ""};
    change(next.config);
    out.push_back(next);
  };
  const ParallelConfig& p = config.parallel;
  if (p.recompute == "none")
    add("parallel.recompute selective", [](Config& c) { c.parallel.recompute = "selective"; });
  if (p.recompute != "full")
    add("parallel.recompute full", [](Config& c) { c.parallel.recompute = "full"; });
  for (const bool recomputes : {false, true}) {
    if (recomputes && p.recompute == "full") continue;
    // From the largest down: the first that fits is told.
    for (int part = 2; p.micro_batch_size % part == 0; part *= 2) {
      if (part > std::numeric_limits<int>::max() / p.request.micro_batches) break;
      add(concat(recomputes ? "parallel.recompute full and " : "", "parallel.micro_batch_size ",
                 p.micro_batch_size / part, " with micro_batches ", part * p.request.micro_batches),
          [&](Config& c) {
            c.parallel.micro_batch_size /= part;
            c.parallel.request.micro_batches *= part;
            if (recomputes) c.parallel.recompute = "full";
          });
      out.back().group = recomputes ? "both" : "smaller";
    }
  }
  if (p.request.zero_stage == 0)
    add("parallel.zero_stage 1", [](Config& c) { c.parallel.request.zero_stage = 1; });
  if (config.precision.compute == "fp32")
    add("precision.compute bf16", [](Config& c) { c.precision.compute = "bf16"; });
  return out;
}

}  // namespace

Index memory_needed(const std::vector<plan::WorkerFootprint>& all, const std::vector<int>& ranks) {
  Index sum = 0;
  for (const int rank : ranks) sum += all.at(static_cast<std::size_t>(rank)).bytes() + kReserve;
  return sum;
}

std::string what_would_fit(const Config& config, const std::vector<int>& ranks, Index bytes) {
  std::string text, told;
  for (const Change& change : changes_of(config)) {
    if (!change.group.empty() && change.group == told) continue;
    if (!check_config(change.config).empty()) continue;
    const Index then =
        memory_needed(footprints(change.config, build_programs(change.config)), ranks);
    if (then > bytes) continue;
    told = change.group;
    text += concat(text.empty() ? "would fit: " : "\n  or ", change.text, " (",
                   human_bytes(then, 2), ")");
  }
  if (!text.empty()) return text;
  // More stages on the same GPU would need more.
  return concat("no single change of recompute, micro-batch, ZeRO or precision would fit: use ",
                ranks.size() > 1 ? "fewer workers per GPU" : "more stages (parallel.depth)",
                " or a smaller model; `chimera plan` finds layouts");
}

void check_memory(const Config& config, const Programs& programs, const std::vector<int>& ranks,
                  Index free_bytes, const std::string& device) {
  const std::vector<plan::WorkerFootprint> all = footprints(config, programs);
  const Index needs = memory_needed(all, ranks);
  if (needs <= free_bytes) return;
  const plan::WorkerFootprint& own = all.at(static_cast<std::size_t>(ranks.front()));
  std::string message =
      concat("not enough memory on ", device, ": ", human_bytes(needs, 2), " are needed",
             ranks.size() > 1 ? concat(" by ", ranks.size(), " workers") : "", ", ",
             human_bytes(free_bytes, 2), " are free. Worker ", ranks.front(), " takes");
  for (const plan::MemoryItem& item : own.items())
    message += concat("\n  ", item.owner, ", ", item.name, ": ", human_bytes(item.bytes, 2));
  message += concat("\n  in reserve, for what kernels need: ", human_bytes(kReserve, 2));
  Fail(message, "\n", what_would_fit(config, ranks, free_bytes));
}

}  // namespace chimera
