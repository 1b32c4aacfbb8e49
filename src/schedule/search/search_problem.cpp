#include "search_problem.h"

#include <algorithm>
#include <cmath>

#include "generate/generators.h"

namespace chimera::schedule {
namespace {

constexpr Index kFine = 60;       // quanta of a mean computation: divides by 2, 3, 4, 5 and 6
constexpr double kLongest = 1e6;  // in mean computations; bounds what a typing error can cost

void check_times(const char* key, const std::vector<double>& times, int stages) {
  if (!times.empty() && static_cast<int>(times.size()) != stages)
    FailUsage("times.", key, " has ", times.size(), " entries; give one per stage, ", stages);
  for (double t : times)
    if (!std::isfinite(t) || t < 0)
      FailUsage("times.", key, " contains ", t, "; a time must be finite and not negative");
}

std::vector<double> filled(const std::vector<double>& times, int stages) {
  return times.empty() ? std::vector<double>(static_cast<std::size_t>(stages), 1.0) : times;
}

}  // namespace

Quanta quantise(const StageTimes& times, int stages, bool recompute) {
  check_times("forward", times.forward, stages);
  check_times("input", times.input, stages);
  check_times("weight", times.weight, stages);
  check_times("message", {times.message}, 1);
  check_times("update", {times.update}, 1);
  const std::vector<double> forward = filled(times.forward, stages);
  const std::vector<double> input = filled(times.input, stages);
  const std::vector<double> weight = filled(times.weight, stages);
  double sum = 0;
  for (const auto* list : {&forward, &input, &weight})
    for (double t : *list) sum += t;
  const double mean = sum / (3.0 * stages);
  if (!(mean > 0)) FailUsage("times: every computation takes 0; leave them out or measure them");

  const auto is_mean = [&](double t) { return t == mean; };
  const auto is_whole = [&](double t) { return t == mean * std::round(t / mean); };
  const bool equal = std::ranges::all_of(forward, is_mean) && std::ranges::all_of(input, is_mean) &&
                     std::ranges::all_of(weight, is_mean) && is_whole(times.message) &&
                     is_whole(times.update);
  Quanta q;
  q.unit = equal ? 1 : kFine;
  const auto whole = [&](double t, Index least) {
    const double scaled = std::min(t / mean, kLongest) * static_cast<double>(q.unit);
    return std::max<Index>(least, std::llround(scaled));
  };
  for (double t : forward) q.forward.push_back(whole(t, 1));
  for (double t : input) q.input.push_back(whole(t, 1));
  for (double t : weight) q.weight.push_back(whole(t, 1));
  if (recompute)
    for (std::size_t s = 0; s < q.input.size(); ++s) q.input[s] += q.forward[s];
  q.message = whole(times.message, 0);
  q.update = whole(times.update, 0);
  return q;
}

SearchProblem problem_like(const ComputePlan& plan, const Request& request) {
  SearchProblem problem;
  problem.frame = plan;
  problem.frame.workers.assign(plan.workers.size(), {});
  problem.micros.resize(plan.placement.size());
  for (const std::vector<Instr>& list : plan.workers)
    for (const Instr& in : list)
      if (in.op == Op::Forward && in.stage == 0)
        for (int m = in.micro; m < in.micro + in.count; ++m)
          problem.micros[static_cast<std::size_t>(in.pipe)].push_back(m);
  for (std::vector<int>& list : problem.micros) std::ranges::sort(list);
  problem.quanta = quantise(request.times, plan.stages(), request.recompute);
  problem.tied = request.tied;
  return problem;
}

std::vector<int> buffer_shares(const std::vector<int>& stages, int D, int buffers, int spread) {
  int sum = 0;
  for (int s : stages) sum += D - s + spread;
  std::vector<int> shares;
  for (int s : stages) {  // to the nearest; a half goes to the deeper stage
    const int twice = 2 * buffers * (D - s + spread) + sum - (2 * s < D ? 1 : 0);
    shares.push_back(std::max(1, twice / (2 * sum)));
  }
  return shares;
}

ComputePlan with_ranks(ComputePlan plan) {
  const auto phase = [&](int tick) { return plan.period > 0 ? tick % plan.period : tick; };
  std::vector<int> starts;
  for (const std::vector<Instr>& list : plan.workers)
    for (const Instr& in : list) starts.push_back(phase(in.tick));
  std::ranges::sort(starts);
  const auto unused = std::ranges::unique(starts);
  starts.erase(unused.begin(), unused.end());
  const int period = plan.period > 0 ? static_cast<int>(starts.size()) : 0;
  for (std::vector<Instr>& list : plan.workers)
    for (Instr& in : list) {
      const auto at = std::ranges::lower_bound(starts, phase(in.tick));
      const int turns = plan.period > 0 ? in.tick / plan.period : 0;
      in.tick = turns * period + static_cast<int>(at - starts.begin());
    }
  plan.period = period;
  return plan;
}

}  // namespace chimera::schedule
