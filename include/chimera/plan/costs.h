#pragma once
// What a layout costs, for the simulator.
#include "chimera/plan/footprint.h"
#include "chimera/plan/times.h"
#include "chimera/schedule/simulate.h"

namespace chimera::plan {

// Bytes of an activation, or of an input gradient, of one micro-batch: B T C numbers of its type.
double message_bytes(const Shape& shape);

// Worker w of replica r is device r * D + w; `stages` as from all_stage_bytes for the same shape.
schedule::Costs simulator_costs(const Cluster& cluster, const PieceTimes& times, const Shape& shape,
                                const std::vector<StageBytes>& stages);

// The link of most messages and the link of reductions, for the closed formula: intra_node where
// all D workers (all D * W) are on one node.
const Link& message_link(const Cluster& cluster, Index depth);
const Link& reduction_link(const Cluster& cluster, Index workers);

}  // namespace chimera::plan
