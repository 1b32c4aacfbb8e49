#include "chimera/plan/search.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>

#include "candidates.h"
#include "chimera/base/format.h"
#include "chimera/base/threads.h"
#include "chimera/schedule/build.h"

namespace chimera::plan {
namespace {

using schedule::ComputePlan;
using schedule::Schedule;

struct Extent {
  Index most = 0, least = 0;
  int worker = 0;  // with the most
};

// Over the workers of the first replica; with ZeRO those of others differ by a block per stage.
Extent memory_of(const std::vector<StageBytes>& stages, const Schedule& train,
                 const Schedule* evaluation) {
  Extent out;
  for (int w = 0; w < train.depth; ++w) {
    const Index bytes = worker_footprint(stages, train, evaluation, 0, w).bytes();
    if (bytes > out.most) out.most = bytes, out.worker = w;
    if (w == 0 || bytes < out.least) out.least = bytes;
  }
  return out;
}

// Searched schedules are made for the times where the run will be given them, too.
schedule::Request with_times(const SearchRequest& request, const Candidate& c) {
  schedule::Request r = c.request;
  if (request.measured)
    r.times = search_times(request.times(c.samples), request.model, c.layers,
                           parse_recompute(c.recompute), r.depth);
  return r;
}

// A candidate until its turn to be simulated; its plan, where there was room to keep it.
struct Waiting {
  Ranked ranked;
  std::shared_ptr<const ComputePlan> plan;
};

Index instructions_of(const ComputePlan& plan) {
  Index sum = 0;
  for (const std::vector<schedule::Instr>& worker : plan.workers) sum += std::ssize(worker);
  return sum;
}

class Search {
 public:
  explicit Search(const SearchRequest& request)
      : request_(request),
        memory_(request.memory > 0 ? request.memory
                                   : static_cast<Index>(request.cluster.memory_bytes)) {}

  SearchResult run() {
    std::vector<Family> list = families(request_, refusals_);
    std::atomic<std::size_t> next = 0;  // families differ by far: each thread takes the next one
    parallel_for(team_size(), 1, [&](Index, Index) {
      for (std::size_t i = next++; i < list.size(); i = next++) sift(list[i]);
    });
    for (Family& family : list)
      for (Ranked& member : family.members) waiting_.push_back({std::move(member), family.plan});
    std::ranges::stable_sort(waiting_, {}, [](const Waiting& w) {
      return std::pair(w.ranked.bound, w.ranked.equation);
    });
    result_.candidates = std::ssize(waiting_);
    simulate_best();
    result_.refusals = refusals_.list();
    return std::move(result_);
  }

 private:
  // Bounds and Eq. 1 of all members of a family; those that cannot run leave it.
  void sift(Family& family) {
    std::vector<Ranked> kept;
    try {
      ComputePlan plan = schedule::generate(with_times(request_, family.members.front().candidate));
      for (Ranked& member : family.members)
        if (estimate(plan, member)) kept.push_back(std::move(member));
      const Index instructions = instructions_of(plan);
      if (!kept.empty() && kept_.fetch_add(instructions) + instructions <= kMostKept)
        family.plan = std::make_shared<const ComputePlan>(std::move(plan));
    } catch (const Error& error) {
      refuse("refused by schedule " + family.request.schedule,
             describe(family.members.front().candidate) + ": " + error.what());
    }
    family.members = std::move(kept);
  }

  bool estimate(const ComputePlan& plan, Ranked& member) {
    const Candidate& c = member.candidate;
    member.stale = is_stale(plan);
    const Sized layout = size_up(request_, c, plan);
    const Extent memory = memory_of(layout.stages, layout.least, nullptr);
    if (memory.most > memory_) return refuse_memory(c, memory, "at least ");
    member.bound = lower_bound_of(request_, plan, layout);
    if (!member.stale) member.equation = equation_of(request_, plan, layout);
    return true;
  }

  void simulate_best() {
    const Index together = std::max(1, team_size());
    for (std::size_t next = 0; next < waiting_.size();) {
      if (best_.size() >= request_.top &&
          waiting_[next].ranked.bound >= best_[request_.top - 1].seconds)
        break;
      if (result_.simulated >= request_.most_simulations) {
        result_.limited = true;
        break;
      }
      const Index count = std::min(together, std::ssize(waiting_) - static_cast<Index>(next));
      parallel_for(count, 1, [&](Index begin, Index end) {
        for (Index i = begin; i < end; ++i) simulate(waiting_[next + static_cast<std::size_t>(i)]);
      });
      next += static_cast<std::size_t>(count);
    }
    if (best_.size() > request_.top) best_.resize(request_.top);
    result_.ranked = std::move(best_);
  }

  // With the reductions at once and with them at the end; the faster counts.
  void simulate(Waiting waiting) {
    Ranked& candidate = waiting.ranked;
    try {
      schedule::Request r = with_times(request_, candidate.candidate);
      const ComputePlan plan = waiting.plan ? *waiting.plan : schedule::generate(r);
      const bool reduces = r.width > 1 || plan.placement.size() > 1;
      bool fits = false;
      for (const char* sync : {"lazy", "eager-opt"}) {
        if (!reduces && r.gradient_sync != sync) continue;
        r.gradient_sync = sync;
        const Schedule lowered = schedule::lower(plan, schedule::lowering_of(r));
        if (!fits && !measure_memory(lowered, candidate)) return;
        fits = true;
        const Shape shape = shape_of(request_, candidate.candidate);
        const schedule::Simulation run = schedule::simulate(
            lowered,
            simulator_costs(request_.cluster, request_.times(candidate.candidate.samples), shape,
                            all_stage_bytes(shape, lowered)),
            {.causes = false, .timeline = false});
        if (candidate.seconds > 0 && run.step_seconds >= candidate.seconds) continue;
        candidate.seconds = run.step_seconds;
        candidate.bubble = run.bubble_ratio();
        candidate.candidate.request.gradient_sync = sync;
      }
      keep(std::move(candidate));
    } catch (const Error& error) {
      refuse("refused by schedule " + candidate.candidate.request.schedule,
             describe(candidate.candidate) + ": " + error.what());
    }
  }

  bool measure_memory(const Schedule& lowered, Ranked& candidate) {
    const Schedule evaluation = schedule::build_evaluation(lowered, lowered.micro_batches);
    const Extent memory = memory_of(
        all_stage_bytes(shape_of(request_, candidate.candidate), lowered), lowered, &evaluation);
    candidate.most_memory = memory.most;
    candidate.least_memory = memory.least;
    return memory.most <= memory_ || refuse_memory(candidate.candidate, memory, "");
  }

  void keep(Ranked done) {
    const std::lock_guard lock(mutex_);
    ++result_.simulated;
    // Equal times: less memory first, then by name, so that the order is always the same.
    const auto order = [](const Ranked& r) {
      return std::tuple(r.seconds, r.most_memory, describe(r.candidate));
    };
    const auto place = std::ranges::lower_bound(best_, order(done), {}, order);
    best_.insert(place, std::move(done));
  }

  void refuse(const std::string& kind, const std::string& example, bool better = false) {
    const std::lock_guard lock(mutex_);
    refusals_.add(kind, example, better);
  }

  // The example is the one that comes nearest to fitting. Always false.
  bool refuse_memory(const Candidate& c, const Extent& memory, const char* at_least) {
    const std::lock_guard lock(mutex_);
    const bool nearest = least_too_much_ == 0 || memory.most < least_too_much_;
    if (nearest) least_too_much_ = memory.most;
    refusals_.add("too much memory",
                  concat(describe(c), ": worker ", memory.worker, " needs ", at_least,
                         human_bytes(memory.most, 2), " of ", human_bytes(memory_, 2)),
                  nearest);
    return false;
  }

  const SearchRequest& request_;
  const Index memory_;
  std::mutex mutex_;
  Refusals refusals_;
  Index least_too_much_ = 0;
  std::vector<Waiting> waiting_;
  std::vector<Ranked> best_;                   // ascending seconds
  static constexpr Index kMostKept = 1 << 21;  // instructions of plans, some 100 MB
  std::atomic<Index> kept_ = 0;
  SearchResult result_;
};

}  // namespace

SearchResult search(const SearchRequest& request) {
  const std::pair<const char*, Index> sizes[] = {
      {"workers", request.workers}, {"batch", request.batch}, {"sequence", request.T}};
  for (const auto& [name, value] : sizes)
    if (value < 1 || value > Index{1} << 24)
      FailUsage(name, " is ", value, "; it must be from 1 to ", Index{1} << 24);
  if (request.T > request.model.n_positions)
    FailUsage("sequence is ", request.T, "; the model has ", request.model.n_positions,
              " positions: use at most that");
  const Cluster& c = request.cluster;
  if (c.nodes > 0 && request.workers > checked_mul(c.nodes, c.devices_per_node))
    FailUsage("workers is ", request.workers, "; ", c.name, " has ", c.nodes * c.devices_per_node,
              " devices (", c.nodes, " nodes of ", c.devices_per_node, ")");
  return Search(request).run();
}

}  // namespace chimera::plan
