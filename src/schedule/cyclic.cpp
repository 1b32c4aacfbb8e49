#include "cyclic.h"

#include <algorithm>
#include <limits>

#include "generators.h"

namespace chimera::schedule {
namespace {

constexpr int kParts = 3;

std::size_t at(int i) { return static_cast<std::size_t>(i); }

Index floor_div(Index a, Index b) { return a / b - (a % b < 0 ? 1 : 0); }
Index phase(Index t, Index period) { return t - floor_div(t, period) * period; }

void add_order(CyclicProblem& p, int pipe, int s, int n) {
  const Quanta& q = p.source->quanta;
  const int D = p.source->frame.stages();
  const auto edge = [&](int from, int to, Index latency, int distance = 0) {
    p.edges.push_back({from, to, latency, distance});
  };
  for (int i = 0; i < n; ++i) {
    const int forward = p.op(pipe, s, Part::Forward, i), input = p.op(pipe, s, Part::Input, i);
    const int weight = p.op(pipe, s, Part::Weight, i);
    if (s > 0) edge(p.op(pipe, s - 1, Part::Forward, i), forward, q.forward[at(s - 1)] + q.message);
    if (s < D - 1)
      edge(p.op(pipe, s + 1, Part::Input, i), input, q.input[at(s + 1)] + q.message);
    else
      edge(forward, input, q.forward[at(s)]);
    edge(input, weight, q.input[at(s)]);
    if (i == 0) continue;
    for (Part part : {Part::Forward, Part::Input, Part::Weight})
      edge(p.op(pipe, s, part, i - 1), p.op(pipe, s, part, i),
           p.ops[at(p.op(pipe, s, part, i))].duration);
  }
}

// The next step's first forward of a stage, at any holder, waits for the update from all holders.
void add_updates(CyclicProblem& p, const std::vector<int>& counts) {
  const Quanta& q = p.source->quanta;
  const int D = p.source->frame.stages();
  const auto wait = [&](int from, int to) {
    for (std::size_t a = 0; a < counts.size(); ++a)
      for (std::size_t b = 0; b < counts.size(); ++b)
        if (counts[a] > 0 && counts[b] > 0)
          p.edges.push_back({p.op(static_cast<int>(a), from, Part::Weight, counts[a] - 1),
                             p.op(static_cast<int>(b), to, Part::Forward, 0),
                             q.weight[at(from)] + q.update, 1});
  };
  for (int s = 0; s < D; ++s) wait(s, s);
  if (p.source->tied && D > 1) wait(0, D - 1), wait(D - 1, 0);
}

}  // namespace

int CyclicProblem::op(int pipe, int stage, Part part, int index) const {
  const int D = source->frame.stages();
  return first[at((pipe * D + stage) * kParts + static_cast<int>(part))] + index;
}

CyclicProblem cyclic_problem(const SearchProblem& problem) {
  CyclicProblem p;
  p.source = &problem;
  const int D = problem.frame.stages(), f = std::max(1, problem.frame.pipeline_pairs);
  const std::size_t n = problem.micros.front().size();
  p.mirrored = problem.pipes() == 2 * f &&
               std::ranges::all_of(problem.micros, [&](const auto& m) { return m.size() == n; });
  const int turn = D / f;
  p.resources = p.mirrored ? turn / 2 : D;
  std::vector<int> counts;
  for (int pipe = 0; pipe < (p.mirrored ? 1 : problem.pipes()); ++pipe)
    counts.push_back(static_cast<int>(problem.micros[at(pipe)].size()));
  const Quanta& q = problem.quanta;
  for (int pipe = 0; pipe < static_cast<int>(counts.size()); ++pipe)
    for (int s = 0; s < D; ++s)
      for (Part part : {Part::Forward, Part::Input, Part::Weight}) {
        p.first.push_back(static_cast<int>(p.ops.size()));
        const int r = s % turn;
        const int resource = p.mirrored ? std::min(r, turn - 1 - r) : problem.worker(pipe, s);
        const Index duration = (part == Part::Forward ? q.forward
                                : part == Part::Input ? q.input
                                                      : q.weight)[at(s)];
        for (int i = 0; i < counts[at(pipe)]; ++i)
          p.ops.push_back({part, pipe, s, i, resource, duration});
      }
  for (int pipe = 0; pipe < static_cast<int>(counts.size()); ++pipe)
    for (int s = 0; s < D; ++s) add_order(p, pipe, s, counts[at(pipe)]);
  add_updates(p, counts);
  std::vector<Index> work(at(p.resources), 0);
  for (const CyclicOp& op : p.ops) work[at(op.resource)] += op.duration;
  p.least_period = *std::ranges::max_element(work);
  return p;
}

namespace {

// Per resource its ops by place on the circle.
std::vector<std::vector<int>> circles(const CyclicProblem& p, const CyclicTimes& times) {
  std::vector<std::vector<int>> out(at(p.resources));
  for (std::size_t i = 0; i < p.ops.size(); ++i)
    out[at(p.ops[i].resource)].push_back(static_cast<int>(i));
  for (std::vector<int>& circle : out)
    std::ranges::sort(circle, {},
                      [&](int i) { return std::pair(phase(times.start[at(i)], times.period), i); });
  return out;
}

// Longest paths at the smallest period without a positive cycle.
class Tightening {
 public:
  Tightening(const CyclicProblem& p, const CyclicTimes& times) : period_(p.least_period) {
    edges_ = p.edges;
    for (const std::vector<int>& circle : circles(p, times))
      for (std::size_t k = 0; k < circle.size() && circle.size() > 1; ++k) {
        const int a = circle[k], b = circle[(k + 1) % circle.size()];
        const Index turns = floor_div(times.start[at(a)], times.period) -
                            floor_div(times.start[at(b)], times.period);
        const int wrap = k + 1 == circle.size() ? 1 : 0;
        edges_.push_back({a, b, p.ops[at(a)].duration, static_cast<int>(turns) + wrap});
      }
    // Edges in the order of the times they start from: most paths are found in the first pass.
    std::ranges::stable_sort(edges_, {},
                             [&](const CyclicEdge& e) { return times.start[at(e.from)]; });
    size_ = p.ops.size();
  }

  std::optional<CyclicTimes> run() {
    restart();
    while (relax()) {
      const std::optional<std::pair<Index, Index>> cycle = positive_cycle();
      if (!cycle) continue;
      const auto [latency, distance] = *cycle;
      if (distance <= 0) return std::nullopt;
      period_ = std::max(period_ + 1, ceil_div(latency, distance));
      restart();
    }
    const Index least = *std::ranges::min_element(start_);
    for (Index& t : start_) t -= least;
    return CyclicTimes{period_, start_};
  }

 private:
  void restart() {
    start_.assign(size_, 0);
    parent_.assign(size_, -1);
  }

  bool relax() {
    bool changed = false;
    for (std::size_t e = 0; e < edges_.size(); ++e) {
      const CyclicEdge& edge = edges_[e];
      const Index t = start_[at(edge.from)] + edge.latency - edge.distance * period_;
      if (t <= start_[at(edge.to)]) continue;
      start_[at(edge.to)] = t;
      parent_[at(edge.to)] = static_cast<int>(e);
      changed = true;
    }
    return changed;
  }

  // A cycle of parents is a positive cycle; its latencies and distances summed.
  std::optional<std::pair<Index, Index>> positive_cycle() const {
    std::vector<int> seen(size_, -1);
    for (int root = 0; root < static_cast<int>(size_); ++root) {
      int i = root;
      while (seen[at(i)] < 0 && parent_[at(i)] >= 0) {
        seen[at(i)] = root;
        i = edges_[at(parent_[at(i)])].from;
      }
      if (seen[at(i)] != root || parent_[at(i)] < 0) continue;
      Index latency = 0, distance = 0;
      int j = i;
      do {
        const CyclicEdge& edge = edges_[at(parent_[at(j)])];
        latency += edge.latency, distance += edge.distance;
        j = edge.from;
      } while (j != i);
      return std::pair(latency, distance);
    }
    return std::nullopt;
  }

  std::size_t size_ = 0;
  Index period_ = 0;
  std::vector<CyclicEdge> edges_;
  std::vector<Index> start_;
  std::vector<int> parent_;  // the edge that fixed each start
};

}  // namespace

std::optional<CyclicTimes> tightened(const CyclicProblem& problem, const CyclicTimes& times) {
  return Tightening(problem, times).run();
}

int peak_slots(const CyclicProblem& p, const CyclicTimes& times) {
  int most = 0;
  for (const std::vector<int>& circle : circles(p, times)) {
    // Alive at the circle's start: tenants of earlier steps. Then +1 at forwards, -1 after weights.
    Index alive = 0;
    for (int i : circle) {
      const Index turns = floor_div(times.start[at(i)], times.period);
      if (p.ops[at(i)].part == Part::Forward) alive -= turns;
      if (p.ops[at(i)].part == Part::Weight) alive += turns;
    }
    for (int i : circle) {
      if (p.ops[at(i)].part == Part::Forward) most = std::max(most, static_cast<int>(++alive));
      if (p.ops[at(i)].part == Part::Weight) --alive;
    }
  }
  return most;
}

bool holds(const CyclicProblem& p, const CyclicTimes& times) {
  for (const CyclicEdge& e : p.edges)
    if (times.start[at(e.to)] < times.start[at(e.from)] + e.latency - e.distance * times.period)
      return false;
  for (const std::vector<int>& circle : circles(p, times))
    for (std::size_t k = 0; k < circle.size(); ++k) {
      const int a = circle[k], b = circle[(k + 1) % circle.size()];
      const Index next =
          phase(times.start[at(b)], times.period) + (k + 1 == circle.size() ? times.period : 0);
      if (next < phase(times.start[at(a)], times.period) + p.ops[at(a)].duration) return false;
    }
  return true;
}

ComputePlan unfold(const CyclicProblem& p, const CyclicTimes& times) {
  ComputePlan plan = p.source->frame;
  plan.period = narrow<int>(times.period);
  for (std::size_t i = 0; i < p.ops.size(); ++i) {
    const CyclicOp& op = p.ops[i];
    const Op kind = op.part == Part::Forward ? Op::Forward
                    : op.part == Part::Input ? Op::BackwardInput
                                             : Op::BackwardWeight;
    for (int pipe = 0; pipe < p.source->pipes(); ++pipe)
      if (p.mirrored || pipe == op.pipe)
        add(plan, narrow<int>(times.start[i]), kind, pipe, op.stage,
            p.source->micros[at(pipe)][at(op.index)]);
  }
  plan = sorted(std::move(plan));
  return p.source->quanta.unit == 1 ? plan : with_ranks(std::move(plan));
}

}  // namespace chimera::schedule
