#include "cyclic.h"

#include <algorithm>

#include "at.h"
#include "generate/generators.h"

namespace chimera::schedule {
namespace {

constexpr Part kParts[] = {Part::Forward, Part::Input, Part::Weight};

const std::vector<Index>& durations(const Quanta& q, Part part) {
  return part == Part::Forward ? q.forward : part == Part::Input ? q.input : q.weight;
}

void add_stage(CyclicProblem& p, int pipe, int s) {
  const Quanta& q = p.search.quanta;
  for (int i = 0; i < p.count(pipe); ++i) {
    const int forward = p.op(pipe, s, Part::Forward, i), input = p.op(pipe, s, Part::Input, i);
    if (s > 0)
      p.edges.push_back(
          {p.op(pipe, s - 1, Part::Forward, i), forward, q.forward[at(s - 1)] + q.message});
    if (s < p.depth() - 1)
      p.edges.push_back({p.op(pipe, s + 1, Part::Input, i), input, q.input[at(s + 1)] + q.message});
    else
      p.edges.push_back({forward, input, q.forward[at(s)]});
    p.edges.push_back({input, p.op(pipe, s, Part::Weight, i), q.input[at(s)]});
    if (i == 0) continue;
    for (Part part : kParts)
      p.edges.push_back(
          {p.op(pipe, s, part, i - 1), p.op(pipe, s, part, i), durations(q, part)[at(s)]});
  }
}

// The next step's first forwards at `to` wait for the weights that this step's gradients of `from`
// make.
void add_update(CyclicProblem& p, int from, int to) {
  const Quanta& q = p.search.quanta;
  for (int a = 0; a < p.pipes; ++a)
    for (int b = 0; b < p.pipes; ++b)
      if (p.count(a) > 0 && p.count(b) > 0)
        p.edges.push_back({p.op(a, from, Part::Weight, p.count(a) - 1),
                           p.op(b, to, Part::Forward, 0), q.weight[at(from)] + q.update, 1});
}

}  // namespace

Index floor_div(Index a, Index b) { return a / b - (a % b < 0 ? 1 : 0); }
Index phase(Index a, Index b) { return a - floor_div(a, b) * b; }

int CyclicProblem::count(int pipe) const {
  return static_cast<int>(search.micros[at(pipe)].size());
}

int CyclicProblem::op(int pipe, int stage, Part part, int index) const {
  return first[at((pipe * depth() + stage) * 3 + static_cast<int>(part))] + index;
}

CyclicProblem::CyclicProblem(SearchProblem problem, bool may_mirror) : search(std::move(problem)) {
  const int D = depth(), f = std::max(1, search.frame.pipeline_pairs), turn = D / f;
  mirrored = may_mirror && search.pipes() == 2 * f;
  for (int pipe = 1; pipe < search.pipes(); ++pipe) mirrored = mirrored && count(pipe) == count(0);
  pipes = mirrored ? 1 : search.pipes();
  resources = mirrored ? turn / 2 : static_cast<int>(search.frame.workers.size());
  for (int pipe = 0; pipe < pipes; ++pipe)
    for (int s = 0; s < D; ++s)
      for (Part part : kParts) {
        first.push_back(static_cast<int>(ops.size()));
        const int resource =
            mirrored ? std::min(s % turn, turn - 1 - s % turn) : search.worker(pipe, s);
        for (int i = 0; i < count(pipe); ++i)
          ops.push_back({part, pipe, s, i, resource, durations(search.quanta, part)[at(s)]});
      }
  for (int pipe = 0; pipe < pipes; ++pipe)
    for (int s = 0; s < D; ++s) add_stage(*this, pipe, s);
  for (int s = 0; s < D; ++s) add_update(*this, s, s);
  if (search.tied && D > 1) add_update(*this, 0, D - 1), add_update(*this, D - 1, 0);
  std::vector<Index> busy(at(resources), 0);
  for (const CyclicOp& op : ops) work = std::max(work, busy[at(op.resource)] += op.duration);
}

bool holds(const CyclicProblem& p, const CyclicTimes& times) {
  for (const CyclicEdge& e : p.edges)
    if (times.start[at(e.to)] < times.start[at(e.from)] + e.latency - e.distance * times.period)
      return false;
  std::vector<std::vector<std::pair<Index, Index>>> taken(at(p.resources));  // begin, end
  for (std::size_t i = 0; i < p.ops.size(); ++i) {
    const Index begin = phase(times.start[i], times.period);
    taken[at(p.ops[i].resource)].push_back({begin, begin + p.ops[i].duration});
  }
  for (auto& circle : taken) {
    std::ranges::sort(circle);
    for (std::size_t k = 0; k < circle.size(); ++k) {
      const bool last = k + 1 == circle.size();
      const Index next = last ? circle.front().first + times.period : circle[k + 1].first;
      if (next < circle[k].second) return false;
    }
  }
  return true;
}

CyclicTimes times_of(const CyclicProblem& p, const ComputePlan& plan, Index period) {
  CyclicTimes times{period, std::vector<Index>(p.ops.size(), 0)};
  for (const std::vector<Instr>& list : plan.workers)
    for (const Instr& in : list) {
      const Part part = in.op == Op::Forward         ? Part::Forward
                        : in.op == Op::BackwardInput ? Part::Input
                                                     : Part::Weight;
      const std::vector<int>& micros = p.search.micros[at(in.pipe)];
      const auto index = std::ranges::lower_bound(micros, in.micro) - micros.begin();
      times.start[at(p.op(in.pipe, in.stage, part, static_cast<int>(index)))] = in.tick;
    }
  return times;
}

ComputePlan unfold(const CyclicProblem& p, const CyclicTimes& times) {
  ComputePlan plan = p.search.frame;
  plan.period = narrow<int>(times.period);
  for (std::size_t i = 0; i < p.ops.size(); ++i) {
    const CyclicOp& op = p.ops[i];
    const Op kind = op.part == Part::Forward ? Op::Forward
                    : op.part == Part::Input ? Op::BackwardInput
                                             : Op::BackwardWeight;
    for (int pipe = 0; pipe < p.search.pipes(); ++pipe)
      if (p.mirrored || pipe == op.pipe)
        add(plan, narrow<int>(times.start[i]), kind, pipe, op.stage,
            p.search.micros[at(pipe)][at(op.index)]);
  }
  plan = sorted(std::move(plan));
  return p.search.quanta.unit == 1 ? plan : with_ranks(std::move(plan));
}

}  // namespace chimera::schedule
