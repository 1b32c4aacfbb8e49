// Names, checks and what generators share.
#include "chimera/schedule/generate.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>

#include "generators.h"
#include "search/searched.h"

namespace chimera::schedule {
namespace {

// Bounds what a typing error can allocate; D = 32 allows 8,192 micro-batches per step.
constexpr Index kMostDepth = 1024, kMostCells = Index{1} << 18, kMostWorkers = Index{1} << 24;

constexpr std::array<ScheduleInfo, 8> kKnown = {{
    {"gpipe",
     "all forwards, then all backwards; any depth; 2(D-1) bubbles, N micro-batches in flight",
     "Huang et al., GPipe, NeurIPS 2019"},
    {"1f1b", "one forward, one backward in turn; any depth; 2(D-1) bubbles, at most D in flight",
     "Fan et al., DAPPLE, PPoPP 2021"},
    {"gems", "two replicas in opposite directions, one micro-batch in flight per worker; any depth",
     "Jain et al., GEMS, SC 2020"},
    {"chimera",
     "f pipelines down and f up over the same workers; even depth; D/f-2 bubbles at N = D",
     "Li and Hoefler, Chimera, SC 2021"},
    {"pipedream",
     "no flush: every micro-batch is a step (N = 1), weights up to D-1 updates old; any depth",
     "Narayanan et al., PipeDream, SOSP 2019"},
    {"pipedream-2bw",
     "no flush: N >= D micro-batches per step, on the weights of one update before; any depth",
     "Narayanan et al., PipeDream-2BW, ICML 2021"},
    {"zb-h1", "1f1b with the backward in two halves, the weight half in the bubbles; any depth",
     "Qi et al., Zero Bubble, ICLR 2024"},
    {"interleaved",
     "1f1b with v stages per worker, a worker's stages D apart; N a multiple of D; 2(D-1)/v "
     "bubbles",
     "Narayanan et al., Megatron-LM, SC 2021"},
}};

// The divisor of n nearest to f; the smaller of two equally near ones.
int nearest_divisor(int n, int f) {
  int best = 1;
  for (int d = 1; d <= n; ++d)
    if (n % d == 0 && std::abs(d - f) < std::abs(best - f)) best = d;
  return best;
}

int nearest_multiple(int n, int of) { return std::max(1, (n + of / 2) / of) * of; }

// Of a request whose member `key` has a value that it cannot have; the message is "KEY is PARTS".
struct Refused : UsageError {
  Refused(const char* member, const std::string& text) : UsageError(text), key(member) {}
  std::string key;
};
template <class... Parts>
[[noreturn]] void refuse(const char* key, const Parts&... parts) {
  throw Refused(key, concat(key, " is ", parts...));
}

void check_sizes(const Request& r) {
  if (std::ranges::none_of(kKnown, [&](const ScheduleInfo& i) { return r.schedule == i.name; }))
    FailUsage("schedule '", r.schedule, "' is unknown; choose one of ", schedule_names());
  if (r.depth < 1 || r.depth > kMostDepth)
    refuse("depth", r.depth, "; it must be 1 to ", kMostDepth);
  if (r.micro_batches < 1)
    refuse("micro_batches", r.micro_batches, "; it must be at least 1, and ", r.depth,
           " or more to keep all stages busy");
  if (Index{r.depth} * r.micro_batches > kMostCells)
    FailUsage("depth ", r.depth, " times micro_batches ", r.micro_batches, " is over ", kMostCells,
              "; use at most ", kMostCells / r.depth, " micro-batches per step");
  if (r.width < 1 || r.width > kMostWorkers / r.depth)
    refuse("width", r.width, "; it must be 1 to ", kMostWorkers / r.depth, " at depth ", r.depth);
  const auto one_of = [](const std::string& value, const char* key,
                         std::initializer_list<const char*> choices) {
    std::string all;
    for (const char* choice : choices) {
      if (value == choice) return;
      all += (all.empty() ? "" : ", ") + std::string(choice);
    }
    FailUsage(key, " '", value, "' is unknown; choose one of ", all);
  };
  one_of(r.scaling, "scaling", {"direct", "doubling", "halving"});
  one_of(r.gradient_sync, "gradient_sync", {"lazy", "eager", "eager-opt"});
  if (r.zero_stage < 0 || r.zero_stage > 1)
    refuse("zero_stage", r.zero_stage, "; it must be 0, or 1 to shard optimizer state");
}

// What only Chimera can be asked for.
void check_others(const Request& r) {
  if (r.pipeline_pairs != 1)
    refuse("pipeline_pairs", r.pipeline_pairs, "; schedule ", r.schedule,
           " has a fixed number of pipelines: use 1, or schedule chimera");
  if (r.scaling != "direct")
    refuse("scaling", r.scaling, "; schedule ", r.schedule,
           " has one way to take more micro-batches: use direct, or schedule chimera");
  if (r.split_backward && r.schedule != "zb-h1")
    refuse("split_backward", "true; schedule ", r.schedule,
           " runs whole backwards: use false, or schedule chimera or zb-h1");
  if (r.overlap_steps)
    refuse("overlap_steps", "true; schedule ", r.schedule,
           " cannot: use false, or schedule "
           "chimera with split_backward");
  if (r.schedule == "pipedream" && r.micro_batches != 1)
    refuse("micro_batches", r.micro_batches,
           "; pipedream updates after every micro-batch: use 1, or schedule pipedream-2bw");
  if (r.schedule == "pipedream" && r.tied)
    FailUsage(
        "the embeddings are tied; under pipedream the first and the last stage hold different "
        "versions of one matrix: use tied_embeddings false, or schedule pipedream-2bw");
  if (r.schedule == "pipedream-2bw" && r.micro_batches < r.depth)
    refuse("micro_batches", r.micro_batches,
           "; pipedream-2bw keeps two weight versions, "
           "which takes at least depth micro-batches per update: use ",
           r.depth);
  const bool stale = r.schedule == "pipedream" || r.schedule == "pipedream-2bw";
  if (stale && r.zero_stage != 0)
    refuse("zero_stage", r.zero_stage, "; schedule ", r.schedule,
           " keeps whole old versions "
           "of the weights on every holder: use 0, or a synchronous schedule");
  if (r.schedule != "interleaved") {
    if (r.virtual_stages != 1)
      refuse("virtual_stages", r.virtual_stages, "; schedule ", r.schedule,
             " has one stage per worker and pipe: use 1, or schedule interleaved");
    return;
  }
  const Index most_chunks = std::min(kMostDepth, kMostCells / r.micro_batches) / r.depth;
  if (r.virtual_stages < 1 || r.virtual_stages > most_chunks)
    refuse("virtual_stages", r.virtual_stages, "; it must be 1 to ", most_chunks, " at depth ",
           r.depth, " with ", r.micro_batches, " micro-batches");
  if (r.virtual_stages > 1 && r.depth == 1)
    refuse("virtual_stages", r.virtual_stages,
           " at depth 1; neighbouring stages must be on "
           "two workers: use depth 2 or more, or 1 virtual stage");
  if (r.micro_batches % r.depth != 0)
    refuse("micro_batches", r.micro_batches, "; interleaved needs a multiple of depth ", r.depth,
           ": use ", nearest_multiple(r.micro_batches, r.depth));
}

void check_chimera(const Request& r) {
  if (r.depth % 2 != 0) {
    const std::string even = r.depth == 1 ? "2" : concat(r.depth - 1, " or ", r.depth + 1);
    refuse("depth", r.depth,
           "; chimera needs an even depth, since with an odd one both directions need the same "
           "worker at the same time: use ",
           even, ", or schedule 1f1b");
  }
  if (r.pipeline_pairs < 1 || r.depth / 2 % r.pipeline_pairs != 0)
    refuse("pipeline_pairs", r.pipeline_pairs, "; it must divide depth / 2 = ", r.depth / 2,
           ": use ", nearest_divisor(r.depth / 2, r.pipeline_pairs));
  if (r.virtual_stages != 1)
    refuse("virtual_stages", r.virtual_stages,
           "; chimera has one stage per worker and pipe: use 1, or schedule interleaved");
  if (r.scaling != "direct" && r.micro_batches % r.depth != 0)
    refuse("micro_batches", r.micro_batches, "; scaling ", r.scaling, " needs a multiple of depth ",
           r.depth, ": use ", nearest_multiple(r.micro_batches, r.depth), ", or scaling direct");
  if (r.scaling != "direct" && r.split_backward)
    refuse("scaling", r.scaling,
           " and split_backward is true; a split backward fills the "
           "bubbles that ",
           r.scaling, " removes: use scaling direct");
  if (r.scaling == "halving" && r.recompute)
    refuse("scaling",
           "halving and recompute is full; halving is doubling without recomputation: "
           "use recompute none, or scaling doubling");
  if (r.overlap_steps && !r.split_backward)
    refuse("overlap_steps", "true; steps of chimera overlap with split_backward true alone");
  if (r.overlap_steps && r.zero_stage != 0)
    refuse("zero_stage", r.zero_stage,
           " and overlap_steps is true; gathering the weights "
           "would stand in the way of the next step: use one of them");
}

void check(const Request& r) {
  check_sizes(r);
  if (r.schedule == "chimera")
    check_chimera(r);
  else
    check_others(r);
}

}  // namespace

std::span<const ScheduleInfo> known_schedules() { return kKnown; }

std::string schedule_names() {
  std::string names;
  for (const ScheduleInfo& info : kKnown)
    names += (names.empty() ? "" : ", ") + std::string(info.name);
  return names;
}

Refusal refusal(const Request& request) {
  try {
    check(request);
  } catch (const Refused& refused) {
    return {refused.key, refused.what()};
  } catch (const UsageError& error) {
    return {"", error.what()};
  }
  return {};
}

ComputePlan generate(const Request& r) {
  check(r);
  const int D = r.depth, N = r.micro_batches, f = r.pipeline_pairs;
  if (r.schedule == "gpipe") return gpipe(D, N);
  if (r.schedule == "1f1b") return one_f_one_b(D, N);
  if (r.schedule == "gems") return gems(D, N);
  if (r.schedule == "pipedream") return pipedream(D);
  if (r.schedule == "pipedream-2bw") return pipedream_2bw(D, N);
  if (r.schedule == "zb-h1") return zb_h1(r);
  if (r.schedule == "interleaved") return interleaved(D, N, r.virtual_stages);
  if (r.overlap_steps) return chimera_overlapped(r);
  if (r.split_backward) return chimera_split(r);
  if (r.scaling != "direct") return f == 1 ? chimera_doubling(D, N) : chimera_doubling_searched(r);
  return chimera_direct(D, N, f);
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

ComputePlan with_ticks(ComputePlan plan) {
  const int last = plan.stages() - 1;
  const auto cell = [&](int stage, int micro) {
    return static_cast<std::size_t>(Index{stage} * plan.micro_batches + micro);
  };
  const int never = std::numeric_limits<int>::max();
  std::vector<int> forward(cell(last + 1, 0), never), backward = forward;  // tick of (stage, micro)
  const auto ready = [&](const Instr& in, int tick) {
    if (in.op == Op::Forward) return in.stage == 0 || forward[cell(in.stage - 1, in.micro)] < tick;
    return forward[cell(in.stage, in.micro)] < tick &&
           (in.stage == last || backward[cell(in.stage + 1, in.micro)] < tick);
  };
  std::vector<std::span<Instr>> rest(plan.workers.begin(), plan.workers.end());
  const auto done = [](std::span<Instr> list) { return list.empty(); };
  for (int tick = 0; !std::ranges::all_of(rest, done); ++tick) {
    bool idle = true;
    for (std::span<Instr>& list : rest) {
      if (list.empty() || !ready(list.front(), tick)) continue;
      Instr& in = list.front();
      (in.op == Op::Forward ? forward : backward)[cell(in.stage, in.micro)] = in.tick = tick;
      list = list.subspan(1);
      idle = false;
    }
    ENSURE(!idle, plan.name, ": at tick ", tick, " every worker waits for another one's result");
  }
  return plan;
}

}  // namespace chimera::schedule
