// Times before lowering.
#include <algorithm>
#include <set>

#include "candidates.h"

namespace chimera::plan {

using schedule::ComputePlan;
using schedule::Group;

Shape shape_of(const SearchRequest& request, const Candidate& c) {
  return {request.model, c.layers, c.samples, request.T, parse_recompute(c.recompute),
          request.type};
}

Sized size_up(const SearchRequest& request, const Candidate& c, const ComputePlan& plan) {
  Sized out{shape_of(request, c), sketch(plan, c.request), {}, {}};
  out.stages = all_stage_bytes(out.shape, out.least);
  out.seconds = stage_seconds(request.times(c.samples), c.layers, out.shape.recompute);
  return out;
}

namespace {

double parameter_bytes(const Sized& layout, const Group& group) {
  return static_cast<double>(
      layout.stages[static_cast<std::size_t>(group.stage)].parameters.layout.bytes());
}

std::set<int> workers_of(const Group& group) {
  std::set<int> workers;
  for (const schedule::Holder& h : group.holders) workers.insert(h.worker);
  return workers;
}

// Of the group's reduction over all replicas: Rabenseifner's cost.
double reduction_seconds(const Link& link, const Sized& layout, const Group& group) {
  const Index members = std::ssize(workers_of(group)) * layout.least.width;
  return schedule::all_reduce_seconds({link.latency, 1 / link.bandwidth},
                                      parameter_bytes(layout, group), narrow<int>(members));
}

const Link& faster(const Link& a, const Link& b) { return a.bandwidth >= b.bandwidth ? a : b; }

// The slowest link that the group's messages surely cross.
const Link& least_reduction_link(const Cluster& c, const Sized& layout) {
  const bool crosses = Index{layout.least.depth} * (layout.least.width - 1) >= c.devices_per_node;
  return crosses ? c.reduction_inter_node : faster(c.reduction_intra_node, c.reduction_inter_node);
}

// Of all that the busiest worker updates after the step synchronisation.
double update_seconds(const SearchRequest& request, const Sized& layout, Index samples) {
  const double each = request.times(samples).optimizer / static_cast<double>(size_of(DType::F32));
  const bool sharded = layout.least.has(schedule::Op::ReduceScatterStart);
  std::vector<double> sums(static_cast<std::size_t>(layout.least.depth), 0.0);
  for (const Group& group : layout.least.groups) {
    const std::set<int> workers = workers_of(group);
    const double share =
        sharded ? static_cast<double>(std::ssize(workers) * layout.least.width) : 1;
    for (const int w : workers)
      sums[static_cast<std::size_t>(w)] += parameter_bytes(layout, group) * each / share;
  }
  return *std::ranges::max_element(sums);
}

}  // namespace

double lower_bound_of(const SearchRequest& request, const ComputePlan& plan, const Sized& layout) {
  const double busiest = busiest_worker(plan, layout.seconds);
  if (plan.period > 0) return busiest;
  const Cluster& c = request.cluster;
  const double bytes = message_bytes(layout.shape);
  const CriticalPath path = critical_path(plan, layout.seconds, [&](int from, int to) {
    const bool crosses = from / c.devices_per_node != to / c.devices_per_node;
    return (crosses ? c.inter_node : faster(c.intra_node, c.inter_node)).seconds(bytes);
  });
  double gradients = path.seconds;
  const Link& link = least_reduction_link(c, layout);
  for (std::size_t s = 0; s < path.stage_end.size(); ++s)
    gradients = std::max(
        gradients, path.stage_end[s] + reduction_seconds(link, layout, layout.least.groups[s]) / 2);
  return std::max(busiest, gradients) + update_seconds(request, layout, layout.shape.samples);
}

double equation_of(const SearchRequest& request, const ComputePlan& plan, const Sized& layout) {
  if (plan.period > 0) return 0;
  std::vector<double> reductions;
  for (int s = 0; s < plan.stages(); ++s)
    reductions.push_back(reduction_seconds(reduction_link(request.cluster, request.workers), layout,
                                           layout.least.groups[static_cast<std::size_t>(s)]));
  const double message =
      plan.depth == 1
          ? 0
          : message_link(request.cluster, plan.depth).seconds(message_bytes(layout.shape));
  return equation1(plan, layout.seconds, message, reductions, /*eager=*/true).seconds();
}

}  // namespace chimera::plan
