#include "chimera/plan/costs.h"

namespace chimera::plan {
namespace {

schedule::LinkCost cost(const Link& link) { return {link.latency, 1 / link.bandwidth}; }

}  // namespace

double message_bytes(const Shape& shape) {
  const Index rows = checked_mul(shape.samples, shape.T);
  return static_cast<double>(
      checked_mul(checked_mul(rows, shape.model.n_embd), size_of(shape.type)));
}

schedule::Costs simulator_costs(const Cluster& cluster, const PieceTimes& times, const Shape& shape,
                                const std::vector<StageBytes>& stages) {
  schedule::Costs costs;
  for (std::vector<double>* list : {&costs.forward, &costs.backward_input, &costs.backward_weight,
                                    &costs.update, &costs.gradient_bytes})
    list->clear();
  for (const StageSeconds& s : stage_seconds(times, shape.layers, shape.recompute)) {
    costs.forward.push_back(s.forward);
    costs.backward_input.push_back(s.input);
    costs.backward_weight.push_back(s.weight);
    costs.recompute.push_back(s.recompute);
  }
  for (const StageBytes& stage : stages) {
    const double bytes = static_cast<double>(stage.parameters.layout.bytes());
    costs.update.push_back(bytes / static_cast<double>(size_of(DType::F32)) * times.optimizer);
    costs.gradient_bytes.push_back(bytes);
  }
  costs.message_bytes = message_bytes(shape);
  costs.workers_per_node = narrow<int>(cluster.devices_per_node);
  costs.inter_node = cost(cluster.inter_node);
  costs.intra_node = cost(cluster.intra_node);
  costs.reduction_inter_node = cost(cluster.reduction_inter_node);
  costs.reduction_intra_node = cost(cluster.reduction_intra_node);
  return costs;
}

const Link& message_link(const Cluster& cluster, Index depth) {
  return depth <= cluster.devices_per_node ? cluster.intra_node : cluster.inter_node;
}

const Link& reduction_link(const Cluster& cluster, Index workers) {
  return workers <= cluster.devices_per_node ? cluster.reduction_intra_node
                                             : cluster.reduction_inter_node;
}

}  // namespace chimera::plan
