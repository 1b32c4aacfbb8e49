#include "chimera/plan/calibration.h"

#include <algorithm>
#include <cmath>

namespace chimera::plan {

void fit_line(MeasuredLink& link) {
  // Least squares of (alpha + beta x - y) / y: normal equations with weights 1 / y^2.
  double w = 0, wx = 0, wxx = 0, wy = 0, wxy = 0;
  for (const MeasuredLink::Point& p : link.points) {
    const double weight = 1 / (p.seconds * p.seconds);
    w += weight;
    wx += weight * p.bytes;
    wxx += weight * p.bytes * p.bytes;
    wy += weight * p.seconds;
    wxy += weight * p.bytes * p.seconds;
  }
  const double determinant = w * wxx - wx * wx;
  ENSURE(determinant > 0 && std::isfinite(determinant),
         "a line needs times of two different sizes; there are ", link.points.size(), " points");
  link.alpha = (wxx * wy - wx * wxy) / determinant;
  link.beta = (w * wxy - wx * wy) / determinant;
  if (link.alpha < 0) link.alpha = 0, link.beta = wxy / wxx;
  if (link.beta < 0) link.beta = 0, link.alpha = wy / w;
}

double allreduce_seconds(double alpha, double beta, double bytes, double r) {
  return r <= 1 ? 0 : 2 * std::log2(r) * alpha + 2 * (r - 1) / r * beta * bytes;
}

Cluster cluster_of(const Calibration& calibration, const std::string& transport) {
  ENSURE(!calibration.steps.empty(),
         "the calibration has no step; `chimera bench step --save` measures one");
  const auto link = std::ranges::find(calibration.p2p, transport, &MeasuredLink::transport);
  ENSURE(link != calibration.p2p.end(), "the calibration has no p2p over ", transport,
         "; `chimera bench p2p --save` measures it");
  const MeasuredStep& step = calibration.steps.front();
  Cluster c;
  c.name = "this-machine";
  c.device = calibration.machine;
  const double C = static_cast<double>(step.C), R = static_cast<double>(step.B * step.T),
               T = static_cast<double>(step.T);
  // Only shapes that were not measured are estimated from this rate.
  c.peak_flops = (24 * C * C + 4 * T * C) * R / step.times.block_forward;
  c.achieved_fraction = 1;
  c.devices_per_node = std::max<Index>(1, calibration.cores / step.threads);
  c.nodes = 1;
  c.memory_bytes = calibration.memory_bytes / static_cast<double>(c.devices_per_node);
  c.memory_bandwidth = 7 * 4 / step.times.optimizer;  // bytes that AdamW moves per parameter
  c.intra_node = {link->alpha, link->beta > 0 ? 1 / link->beta : 1e14};
  c.inter_node = c.intra_node;
  c.overlaps_messages = false;  // cores that copy do not compute
  return c;
}

}  // namespace chimera::plan
