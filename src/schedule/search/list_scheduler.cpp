#include "list_scheduler.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <queue>

#include "generate/generators.h"

namespace chimera::schedule {
namespace {

constexpr Index kNever = std::numeric_limits<Index>::max() / 2;

// One stage of one pipe, with all its computations in order: the next of each kind is a counter.
struct Stream {
  int pipe = 0, stage = 0, worker = 0;
  std::vector<std::pair<int, int>> blocks;  // of a forward: [first, last) in the pipe's own numbers
  std::vector<int> block_of;                // of each micro-batch
  int share = std::numeric_limits<int>::max();   // of its worker's buffers
  int forwards = 0, backwards = 0, weights = 0;  // started
  int alive = 0;
  std::vector<Index> forward_end, input_end;  // per block, per micro-batch
};

// The most urgent of what a worker may start.
struct Choice {
  std::array<int, 5> key{};  // smaller is more urgent
  Op op = Op::Forward;
  Stream* lane = nullptr;
  void consider(const Choice& other) {
    if (lane == nullptr || other.key < key) *this = other;
  }
};

// Smaller is better: buffers over the limit, length, buffers.
struct Rank {
  int excess = 0;
  Index makespan = 0;
  int buffers = 0;
  auto operator<=>(const Rank&) const = default;
};
Rank rank_of(const ListResult& result, int limit) {
  return {std::max(0, result.buffers - limit), result.makespan, result.buffers};
}

class Scheduler {
 public:
  Scheduler(const SearchProblem& problem, const ListRule& rule) : problem_(problem), rule_(rule) {
    const std::size_t D = problem.frame.workers.size();
    stages_ = problem.frame.stages();
    by_worker_.resize(D), busy_until_.assign(D, 0), alive_.assign(D, 0);
    for (int pipe = 0; pipe < problem.pipes(); ++pipe)
      for (int s = 0; s < stages_; ++s) lanes_.push_back(make_lane(pipe, s));
    for (Stream& lane : lanes_) by_worker_[static_cast<std::size_t>(lane.worker)].push_back(&lane);
    if (rule.spread >= 0) divide_slots();
    for (std::size_t w = 0; w < D; ++w) wake(0, static_cast<int>(w));
    result_.plan = problem.frame;
    remaining_.assign(D, 0);
    const Quanta& q = problem.quanta;
    for (const Stream& lane : lanes_) {
      const auto s = static_cast<std::size_t>(lane.stage);
      remaining_[static_cast<std::size_t>(lane.worker)] +=
          static_cast<Index>(lane.block_of.size()) * (q.forward[s] + q.input[s] + q.weight[s]);
    }
  }

  // Nothing where the buffers stopped every worker before the end, or where it is clear before the
  // end that the result would be no better than `rival`, for this limit of buffers (beaten).
  std::optional<ListResult> run(const std::optional<Rank>& rival, int limit) {
    while (!events_.empty()) {
      if (rival &&
          !(Rank{std::max(0, result_.buffers - limit), least_, result_.buffers} < *rival)) {
        beaten_ = true;
        return std::nullopt;
      }
      const auto [now, worker] = events_.top();
      events_.pop();
      if (busy_until_[static_cast<std::size_t>(worker)] <= now) start_one(worker, now);
    }
    for (const Stream& lane : lanes_)
      if (lane.weights < static_cast<int>(lane.block_of.size())) return std::nullopt;
    result_.plan = sorted(std::move(result_.plan));
    return std::move(result_);
  }
  bool beaten() const { return beaten_; }

 private:
  Stream make_lane(int pipe, int stage) const {
    Stream lane;
    lane.pipe = pipe, lane.stage = stage, lane.worker = problem_.worker(pipe, stage);
    const std::vector<int>& micros = problem_.micros[static_cast<std::size_t>(pipe)];
    for (std::size_t i = 0; i < micros.size(); ++i) {
      if (i == 0 || static_cast<int>(i) <= rule_.singles ||
          micros[i] / rule_.span != micros[i - 1] / rule_.span)
        lane.blocks.push_back({static_cast<int>(i), static_cast<int>(i)});
      lane.blocks.back().second = static_cast<int>(i) + 1;
      lane.block_of.push_back(static_cast<int>(lane.blocks.size()) - 1);
    }
    lane.forward_end.assign(lane.blocks.size(), kNever);
    lane.input_end.assign(micros.size(), kNever);
    return lane;
  }

  void divide_slots() {
    for (const std::vector<Stream*>& lanes : by_worker_) {
      std::vector<int> lane_stages;
      for (const Stream* lane : lanes) lane_stages.push_back(lane->stage);
      const std::vector<int> shares =
          buffer_shares(lane_stages, stages_, rule_.buffers, rule_.spread);
      for (std::size_t k = 0; k < lanes.size(); ++k) lanes[k]->share = shares[k];
    }
  }

  void wake(Index time, int worker) { events_.push({time, worker}); }
  const Stream* neighbour(const Stream& lane, int by) const {
    return &lanes_[&lane - lanes_.data() + by];
  }

  bool room(const Stream& lane) const {
    const auto [from, to] = lane.blocks[static_cast<std::size_t>(lane.forwards)];
    return alive_[static_cast<std::size_t>(lane.worker)] + to - from <= rule_.buffers &&
           lane.alive + to - from <= lane.share;
  }

  // The lane's next computations whose inputs are there.
  void offer(Stream& lane, Index now, Choice& best) const {
    const bool deepest = rule_.preference == Preference::Deepest;
    const auto at = [](const std::vector<Index>& v, int i) {
      return v[static_cast<std::size_t>(i)];
    };
    const int n = static_cast<int>(lane.block_of.size()), m = lane.backwards, f = lane.forwards;
    const Index hop = problem_.quanta.message;
    if (m < n) {
      const int block = lane.block_of[static_cast<std::size_t>(m)];
      const bool last = lane.stage == stages_ - 1;
      if (at(lane.forward_end, block) <= now &&
          (last || at(neighbour(lane, 1)->input_end, m) + hop <= now))
        best.consider({{0, 0, m, lane.pipe, lane.stage}, Op::BackwardInput, &lane});
    }
    const bool steady = rule_.preference == Preference::Steady;
    const int behind = f - (m < n ? lane.block_of[static_cast<std::size_t>(m)] : f);
    if (f < static_cast<int>(lane.blocks.size()) && !(steady && behind >= stages_ - lane.stage) &&
        (lane.stage == 0 || at(neighbour(lane, -1)->forward_end, f) + hop <= now) && room(lane)) {
      const int first = lane.blocks[static_cast<std::size_t>(f)].first;
      best.consider({{steady ? -1 : 1, deepest ? -lane.stage : 0, first, lane.pipe, lane.stage},
                     Op::Forward,
                     &lane});
    }
    const int w = lane.weights;
    if (rule_.split && w < m && at(lane.input_end, w) <= now)
      best.consider(
          {{2, deepest ? lane.stage : 0, w, lane.pipe, lane.stage}, Op::BackwardWeight, &lane});
  }

  void start_one(int worker, Index now) {
    Choice best;
    for (Stream* lane : by_worker_[static_cast<std::size_t>(worker)]) offer(*lane, now, best);
    if (best.lane != nullptr) start(best.op, *best.lane, now);
  }

  void start(Op op, Stream& lane, Index now) {
    const std::size_t worker = static_cast<std::size_t>(lane.worker),
                      s = static_cast<std::size_t>(lane.stage);
    const std::vector<int>& micros = problem_.micros[static_cast<std::size_t>(lane.pipe)];
    const Quanta& q = problem_.quanta;
    int first = 0, count = 1;
    Index end = now;
    if (op == Op::Forward) {
      const auto [from, to] = lane.blocks[static_cast<std::size_t>(lane.forwards)];
      first = from, count = to - from;
      end += q.forward[s] * count;
      lane.forward_end[static_cast<std::size_t>(lane.forwards++)] = end;
      lane.alive += count, alive_[worker] += count;
      result_.buffers = std::max(result_.buffers, alive_[worker]);
      if (lane.stage + 1 < stages_) wake(end + q.message, neighbour(lane, 1)->worker);
    } else if (op == Op::BackwardInput) {
      first = lane.backwards++;
      end += q.input[s] + (rule_.split ? 0 : q.weight[s]);
      lane.input_end[static_cast<std::size_t>(first)] = end;
      if (lane.stage > 0) wake(end + q.message, neighbour(lane, -1)->worker);
    } else {
      first = lane.weights;
      end += q.weight[s];
    }
    if (op == Op::BackwardWeight || (op == Op::BackwardInput && !rule_.split)) finish_weight(lane);
    if (op == Op::BackwardInput && !rule_.split) op = Op::Backward;
    add(result_.plan, narrow<int>(now), op, lane.pipe, lane.stage,
        micros[static_cast<std::size_t>(first)], count);
    busy_until_[worker] = end;
    least_ = std::max(least_, now + remaining_[worker]);
    remaining_[worker] -= end - now;
    result_.makespan = std::max(result_.makespan, end);
    wake(end, lane.worker);
  }

  // The last gradient of a block frees its buffers; nothing else can start on this worker before
  // its end.
  void finish_weight(Stream& lane) {
    const int block = lane.block_of[static_cast<std::size_t>(lane.weights++)];
    const auto [from, to] = lane.blocks[static_cast<std::size_t>(block)];
    if (to != lane.weights) return;
    alive_[static_cast<std::size_t>(lane.worker)] -= to - from;
    lane.alive -= to - from;
  }

  using Event = std::pair<Index, int>;
  const SearchProblem& problem_;
  ListRule rule_;
  int stages_ = 1;
  std::vector<Stream> lanes_;
  std::vector<std::vector<Stream*>> by_worker_;
  std::vector<Index> busy_until_;
  std::vector<int> alive_;
  std::vector<Index> remaining_;  // work per worker
  Index least_ = 0;               // what the makespan will be at least
  bool beaten_ = false;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  ListResult result_;
};

// With more buffers where they stop every worker; nothing when it is no better than `rival`.
std::optional<ListResult> schedule_unless_beaten(const SearchProblem& problem, const ListRule& rule,
                                                 const std::optional<Rank>& rival) {
  for (ListRule relaxed = rule;; ++relaxed.buffers) {
    Scheduler scheduler(problem, relaxed);
    std::optional<ListResult> result = scheduler.run(rival, rule.buffers);
    if (result || scheduler.beaten()) return result;
  }
}

}  // namespace

ListResult list_schedule(const SearchProblem& problem, const ListRule& rule) {
  return *schedule_unless_beaten(problem, rule, std::nullopt);
}

ListResult best_of(const SearchProblem& problem, const std::vector<ListRule>& rules) {
  std::optional<ListResult> best;
  std::optional<Rank> best_rank;
  for (const ListRule& rule : rules) {
    std::optional<ListResult> result = schedule_unless_beaten(problem, rule, best_rank);
    if (!result) continue;
    const Rank rank = rank_of(*result, rule.buffers);
    if (best && !(rank < *best_rank)) continue;
    best = std::move(result), best_rank = rank;
  }
  ENSURE(best.has_value(), "best_of: no rule given");
  return *std::move(best);
}

std::vector<ListRule> split_rules(int buffers) {
  std::vector<ListRule> rules;
  for (int spread : {-1, 0, 1, 2, 4})
    for (Preference preference : {Preference::Oldest, Preference::Deepest, Preference::Steady})
      rules.push_back({.preference = preference, .buffers = buffers, .spread = spread});
  return rules;
}

ComputePlan plan_of(const SearchProblem& problem, ListResult result) {
  if (problem.quanta.unit == 1) return std::move(result.plan);
  return with_ranks(std::move(result.plan));
}

}  // namespace chimera::schedule
