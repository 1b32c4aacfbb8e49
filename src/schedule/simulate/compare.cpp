#include "chimera/schedule/compare.h"

#include <algorithm>

#include "chimera/schedule/build.h"

namespace chimera::schedule {
namespace {

std::vector<NamedRequest> variants(const Request& base, const std::string& schedule) {
  Request plain = base;
  plain.schedule = schedule;
  plain.pipeline_pairs = plain.virtual_stages = 1;
  plain.scaling = "direct";
  plain.split_backward = plain.overlap_steps = false;
  std::vector<NamedRequest> out = {{schedule, plain}};
  if (plain.schedule == "interleaved")
    out[0].request.virtual_stages = std::max(2, base.virtual_stages);
  if (plain.schedule != "chimera") return out;
  const auto add = [&](const char* name, const auto& change) {
    change(out.emplace_back(schedule + name, plain).request);
  };
  add(" f=2", [](Request& r) { r.pipeline_pairs = 2; });
  add(" doubling", [](Request& r) { r.scaling = "doubling"; });
  add(" halving", [](Request& r) { r.scaling = "halving"; });
  add(" split", [](Request& r) { r.split_backward = true; });
  add(" split overlap", [](Request& r) { r.split_backward = r.overlap_steps = true; });
  return out;
}

// What a worker keeps, in D-ths of the model.
void count_memory(ComparedSchedule& row, const Schedule& s) {
  std::vector<double> weights(s.programs.size());
  for (const std::vector<int>& pipe : s.placement)
    for (std::size_t stage = 0; stage < pipe.size(); ++stage)
      weights[static_cast<std::size_t>(pipe[stage])] +=
          static_cast<double>(s.versions[stage]) / s.virtual_stages;
  const auto [least, most] = std::ranges::minmax(weights);
  row.least_weights = least;
  row.most_weights = most;
  const auto [few, many] = std::ranges::minmax(s.activation_buffers);
  const double micro_batches = static_cast<double>(s.span()) / s.virtual_stages;
  row.least_activations = few * micro_batches;
  row.most_activations = many * micro_batches;
}

ComparedSchedule compared(const std::string& name, Request request, const Costs& costs) {
  const int micro_batches = request.micro_batches;
  ComparedSchedule row{.name = name, .request = request, .refusal = refusal(request)};
  if (!row.refusal.empty()) {
    // Without a flush, N micro-batches may be N steps of one.
    request.micro_batches = 1;
    if (request.schedule != "pipedream" || !refusal(request).empty()) return row;
    row.request = request;
    row.refusal.clear();
  }
  row.request.times = times_for_search(costs, request);
  Schedule s;
  try {
    s = build_schedule(row.request);
  } catch (const Error& error) {  // a search that finds none
    row.refusal = error.what();
    return row;
  }
  const Costs own = costs_per_virtual_stage(costs, request.depth, request.virtual_stages);
  const Simulation simulation = simulate(s, own, {.timeline = false});
  const double steps = static_cast<double>(micro_batches) / row.request.micro_batches;
  row.seconds = steps * simulation.step_seconds;
  row.messages = steps * simulation.messages;
  row.reductions = steps * simulation.reductions;
  row.bubble_ratio = simulation.bubble_ratio();
  count_memory(row, s);
  return row;
}

double largest(const std::vector<double>& list) {
  return list.empty() ? 0 : std::ranges::max(list);
}

std::vector<double> per_stage(const std::vector<double>& list, int stages) {
  return list.size() == 1 ? std::vector<double>(static_cast<std::size_t>(stages), list.front())
                          : list;
}

}  // namespace

Costs costs_per_virtual_stage(const Costs& costs, int depth, int virtual_stages) {
  if (virtual_stages == 1) return costs;
  Costs out = costs;
  const auto cut = [&](std::vector<double>& list) {
    std::vector<double> pieces;
    for (std::size_t i = 0; i < list.size(); ++i) {
      const bool tied = list.size() > 1 && i >= static_cast<std::size_t>(depth);
      const int count = list.size() == 1 || tied ? 1 : virtual_stages;
      pieces.insert(pieces.end(), static_cast<std::size_t>(count),
                    list[i] / (tied ? 1 : virtual_stages));
    }
    list = std::move(pieces);
  };
  for (std::vector<double> Costs::*list :
       {&Costs::forward, &Costs::backward_input, &Costs::backward_weight, &Costs::recompute,
        &Costs::update, &Costs::gradient_bytes})
    cut(out.*list);
  return out;
}

StageTimes times_for_search(const Costs& costs, const Request& request) {
  const int stages = request.depth * request.virtual_stages;
  StageTimes times{.forward = per_stage(costs.forward, stages),
                   .input = per_stage(costs.backward_input, stages),
                   .weight = per_stage(costs.backward_weight, stages)};
  if (request.recompute) {
    const std::vector<double> again =
        costs.recompute.empty() ? times.forward : per_stage(costs.recompute, stages);
    std::ranges::transform(times.input, again, times.input.begin(), std::plus());
  }
  times.message =
      costs.inter_node.latency + costs.inter_node.seconds_per_byte * costs.message_bytes;
  const int members = 2 * request.pipeline_pairs * request.width;
  times.update = largest(costs.update) + all_reduce_seconds(costs.reduction_inter_node,
                                                            largest(costs.gradient_bytes), members);
  return times;
}

std::vector<NamedRequest> each_schedule(const Request& request) {
  std::vector<NamedRequest> out;
  for (const ScheduleInfo& info : known_schedules())
    for (NamedRequest& one : variants(request, info.name)) out.push_back(std::move(one));
  return out;
}

std::vector<ComparedSchedule> compare(const Request& request, const Costs& costs) {
  std::vector<ComparedSchedule> rows;
  for (const NamedRequest& one : each_schedule(request))
    rows.push_back(compared(one.name, one.request, costs));
  if (std::ranges::none_of(rows, [](const ComparedSchedule& row) { return row.refusal.empty(); }))
    FailUsage("no schedule can run this; ", rows.front().name, ": ", rows.front().refusal);
  return rows;
}

}  // namespace chimera::schedule
