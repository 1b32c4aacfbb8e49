// Names, checks and what generators share.
#include "chimera/schedule/generate.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "generators.h"

namespace chimera::schedule {
namespace {

// Bounds what a typing error can allocate; D = 32 allows 8,192 micro-batches per step.
constexpr Index kMostDepth = 1024, kMostCells = Index{1} << 18;

constexpr std::array<ScheduleInfo, 3> kKnown = {{
    {"gpipe",
     "all forwards, then all backwards; any depth; 2(D-1) bubbles, N micro-batches in flight",
     "Huang et al., GPipe, NeurIPS 2019"},
    {"1f1b", "one forward, one backward in turn; any depth; 2(D-1) bubbles, at most D in flight",
     "Fan et al., DAPPLE, PPoPP 2021"},
    {"chimera",
     "f pipelines down and f up over the same workers; even depth; D/f-2 bubbles at N = D",
     "Li and Hoefler, Chimera, SC 2021"},
}};

// The divisor of n nearest to f; the smaller of two equally near ones.
int nearest_divisor(int n, int f) {
  int best = 1;
  for (int d = 1; d <= n; ++d)
    if (n % d == 0 && std::abs(d - f) < std::abs(best - f)) best = d;
  return best;
}

void check(const Request& r) {
  if (std::ranges::none_of(kKnown, [&](const ScheduleInfo& i) { return r.schedule == i.name; }))
    FailUsage("schedule '", r.schedule, "' is unknown; choose one of ", schedule_names());
  if (r.depth < 1 || r.depth > kMostDepth)
    FailUsage("depth is ", r.depth, "; it must be 1 to ", kMostDepth);
  if (r.micro_batches < 1)
    FailUsage("micro_batches is ", r.micro_batches, "; it must be at least 1, and ", r.depth,
              " or more to keep all stages busy");
  if (Index{r.depth} * r.micro_batches > kMostCells)
    FailUsage("depth ", r.depth, " times micro_batches ", r.micro_batches, " is over ", kMostCells,
              "; use at most ", kMostCells / r.depth, " micro-batches per step");
  if (r.width < 1) FailUsage("width is ", r.width, "; it must be at least 1");
  if (r.schedule != "chimera") {
    if (r.pipeline_pairs != 1)
      FailUsage("pipeline_pairs is ", r.pipeline_pairs, "; schedule ", r.schedule,
                " has one pipeline: use 1, or schedule chimera");
    return;
  }
  if (r.depth % 2 != 0) {
    const std::string even = r.depth == 1 ? "2" : concat(r.depth - 1, " or ", r.depth + 1);
    FailUsage("depth is ", r.depth,
              "; chimera needs an even depth, since with an odd one both directions need the same "
              "worker at the same time: use ",
              even, ", or schedule 1f1b");
  }
  if (r.pipeline_pairs < 1 || r.depth / 2 % r.pipeline_pairs != 0)
    FailUsage("pipeline_pairs is ", r.pipeline_pairs, "; it must divide depth / 2 = ", r.depth / 2,
              ": use ", nearest_divisor(r.depth / 2, r.pipeline_pairs));
}

}  // namespace

std::span<const ScheduleInfo> known_schedules() { return kKnown; }

std::string schedule_names() {
  std::string names;
  for (const ScheduleInfo& info : kKnown)
    names += (names.empty() ? "" : ", ") + std::string(info.name);
  return names;
}

ComputePlan generate(const Request& r) {
  check(r);
  if (r.schedule == "gpipe") return gpipe(r.depth, r.micro_batches);
  if (r.schedule == "1f1b") return one_f_one_b(r.depth, r.micro_batches);
  return chimera_direct(r.depth, r.micro_batches, r.pipeline_pairs);
}

ComputePlan empty_plan(const char* name, int D, int N) {
  ComputePlan plan;
  plan.name = name;
  plan.depth = D;
  plan.micro_batches = N;
  plan.workers.resize(static_cast<std::size_t>(D));
  return plan;
}

std::vector<int> one_way(int D) {
  std::vector<int> workers(static_cast<std::size_t>(D));
  std::iota(workers.begin(), workers.end(), 0);
  return workers;
}

void add(ComputePlan& plan, int tick, Op op, int pipe, int stage, int micro, int count) {
  Instr in;
  in.tick = tick;
  in.op = op;
  in.pipe = pipe;
  in.stage = stage;
  in.micro = micro;
  in.count = count;
  const int worker =
      plan.placement[static_cast<std::size_t>(pipe)][static_cast<std::size_t>(stage)];
  plan.workers[static_cast<std::size_t>(worker)].push_back(std::move(in));
}

ComputePlan sorted(ComputePlan plan) {
  for (std::vector<Instr>& worker : plan.workers) std::ranges::sort(worker, {}, &Instr::tick);
  return plan;
}

}  // namespace chimera::schedule
