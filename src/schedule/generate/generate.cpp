// The table of schedules, checks and what generators share.
#include "chimera/schedule/generate.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <tuple>

#include "generators.h"

namespace chimera::schedule {
namespace {

const ScheduleInfo* find(const std::string& name) {
  const std::span<const ScheduleInfo> known = known_schedules();
  const auto found =
      std::ranges::find_if(known, [&](const ScheduleInfo& info) { return name == info.name; });
  return found == known.end() ? nullptr : &*found;
}

void check_sizes(const Request& r) {
  if (find(r.schedule) == nullptr)
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

void check_traits(const Request& r, const Traits& t) {
  if (r.pipeline_pairs != 1 && !t.takes_pipeline_pairs)
    refuse("pipeline_pairs", r.pipeline_pairs, "; schedule ", r.schedule,
           " has a fixed number of pipelines: use 1, or schedule ",
           schedules_with(&Traits::takes_pipeline_pairs));
  if (r.scaling != "direct" && !t.takes_scaling)
    refuse("scaling", r.scaling, "; schedule ", r.schedule,
           " has one way to take more micro-batches: use direct, or schedule ",
           schedules_with(&Traits::takes_scaling));
  if (r.split_backward && !t.takes_split_backward && !t.split)
    refuse("split_backward", "true; schedule ", r.schedule,
           " runs whole backwards: use false, or schedule ",
           schedules_with([](const Traits& o) { return o.takes_split_backward || o.split; }));
  if (r.overlap_steps && !t.takes_overlap_steps)
    refuse("overlap_steps", "true; schedule ", r.schedule, " cannot: use false, or schedule ",
           schedules_with(&Traits::takes_overlap_steps), " with split_backward");
}

void check(const Request& r) {
  check_sizes(r);
  const ScheduleInfo& info = *find(r.schedule);
  check_traits(r, info.traits);
  if (info.check != nullptr) info.check(r);
  if (info.traits.stale && r.zero_stage != 0)
    refuse("zero_stage", r.zero_stage, "; schedule ", r.schedule,
           " keeps whole old versions "
           "of the weights on every holder: use 0, or a synchronous schedule");
  if (r.virtual_stages != 1 && !info.traits.takes_virtual_stages)
    refuse("virtual_stages", r.virtual_stages, "; schedule ", r.schedule,
           " has one stage per worker and pipe: use 1, or schedule ",
           schedules_with(&Traits::takes_virtual_stages));
}

}  // namespace

std::span<const ScheduleInfo> known_schedules() {
  static const std::vector<ScheduleInfo> known = [] {
    std::vector<ScheduleInfo> rows = schedule_rows();
    std::ranges::sort(rows, {}, [](const ScheduleInfo& info) {
      return std::tuple(info.place, std::string_view(info.name));
    });
    return rows;
  }();
  return known;
}

std::string schedule_names() {
  std::string names;
  for (const ScheduleInfo& info : known_schedules())
    names += (names.empty() ? "" : ", ") + std::string(info.name);
  return names;
}

std::string schedules_with(const std::function<bool(const Traits&)>& trait) {
  std::string names;
  for (const ScheduleInfo& info : known_schedules())
    if (trait(info.traits)) names += (names.empty() ? "" : " or ") + std::string(info.name);
  return names;
}

Traits traits_of(const std::string& schedule) {
  const ScheduleInfo* info = find(schedule);
  return info == nullptr ? Traits() : info->traits;
}

std::string featured_schedule() { return schedules_with(&Traits::featured); }

Request serial_request() {
  return {.schedule = schedules_with(&Traits::serial), .depth = 1, .micro_batches = 1};
}

int micro_batches_of_step(const Request& r) {
  const int own = traits_of(r.schedule).micro_batches_per_step;
  return own > 0 ? own : r.micro_batches;
}

bool splits_backward(const Request& r) { return r.split_backward || traits_of(r.schedule).split; }

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
  return find(r.schedule)->make(r);
}

int nearest_multiple(int n, int of) { return std::max(1, (n + of / 2) / of) * of; }

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

std::vector<std::vector<int>> place_bidirectional(int D, int f) {
  std::vector<std::vector<int>> placement;
  for (int pipe = 0; pipe < 2 * f; ++pipe) {
    std::vector<int>& workers = placement.emplace_back();
    for (int s = 0; s < D; ++s)
      workers.push_back((pipe % f * (D / f) + (pipe < f ? s : D - 1 - s)) % D);
  }
  return placement;
}

int share_of_pipe(int n, int pipe, int f) {
  const int turn = 2 * (pipe % f) + pipe / f;
  return n / (2 * f) + (turn < n % (2 * f) ? 1 : 0);
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
