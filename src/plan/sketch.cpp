// Memory before lowering.
#include <algorithm>
#include <map>

#include "candidates.h"
#include "chimera/schedule/lower.h"

namespace chimera::plan {

using schedule::ComputePlan;
using schedule::Instr;
using schedule::Op;
using schedule::Schedule;

namespace {

int largest_count(const ComputePlan& plan) {
  int most = 1;
  for (const std::vector<Instr>& worker : plan.workers)
    for (const Instr& in : worker) most = std::max(most, in.count);
  return most;
}

struct Stay {
  int first = 0, last = 0;  // ticks of the first Forward and the end of the backward
};

int most_alive(const std::vector<Stay>& stays, int period) {
  int most = 0;
  if (period > 0) {  // a stay of several periods meets itself
    std::vector<int> alive(static_cast<std::size_t>(period), 0);
    for (const Stay& stay : stays)
      for (int t = stay.first; t <= stay.last; ++t) ++alive[static_cast<std::size_t>(t % period)];
    return stays.empty() ? 0 : *std::ranges::max_element(alive);
  }
  std::vector<std::pair<int, int>> changes;  // a worker computes one thing per tick
  for (const Stay& stay : stays) {
    changes.emplace_back(stay.first, 1);
    changes.emplace_back(stay.last + 1, -1);
  }
  std::ranges::sort(changes);
  int alive = 0;
  for (const auto& [tick, change] : changes) most = std::max(most, alive += change);
  return most;
}

}  // namespace

std::vector<int> peak_in_flight(const ComputePlan& plan) {
  const int span = largest_count(plan);
  std::vector<int> peaks;
  for (const std::vector<Instr>& worker : plan.workers) {
    std::map<std::pair<int, int>, Stay> stays;  // by stage and block
    for (const Instr& in : worker) {
      const auto [it, fresh] =
          stays.try_emplace({in.stage, in.micro / span}, Stay{in.tick, in.tick});
      it->second.first = std::min(it->second.first, in.tick);
      it->second.last = std::max(it->second.last, in.tick);
    }
    std::vector<Stay> list;
    for (const auto& [key, stay] : stays) list.push_back(stay);
    peaks.push_back(most_alive(list, plan.period));
  }
  return peaks;
}

Schedule sketch(const ComputePlan& plan, const schedule::Request& request) {
  Schedule s;
  s.name = plan.name;
  s.depth = plan.depth;
  s.micro_batches = plan.micro_batches;
  s.pipeline_pairs = plan.pipeline_pairs;
  s.virtual_stages = plan.virtual_stages;
  s.tied = request.tied;
  s.width = request.width;
  s.placement = plan.placement;
  s.groups = schedule::make_groups(plan.placement, request.tied);
  s.period = plan.period;
  s.versions.assign(s.groups.size(), 1);
  s.accumulators.assign(s.groups.size(), 1);
  for (const std::vector<Instr>& worker : plan.workers) {
    schedule::Program program{worker};
    if (request.zero_stage > 0) {
      Instr reduction;
      reduction.op = Op::ReduceScatterStart;
      program.body.push_back(reduction);
    }
    s.programs.push_back(std::move(program));
    for (const Instr& in : worker) {
      int& versions = s.versions[static_cast<std::size_t>(in.stage)];
      versions = std::max(versions, in.version + 1);
    }
  }
  s.boundary_buffers = peak_in_flight(plan);
  s.activation_buffers =
      request.recompute ? std::vector<int>(s.boundary_buffers.size(), 1) : s.boundary_buffers;
  return s;
}

}  // namespace chimera::plan
