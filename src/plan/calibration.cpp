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

void fit_reduction(MeasuredLink& link) {
  ENSURE(link.ranks >= 2, "a reduction over ", link.ranks, " ranks tells nothing");
  fit_line(link);
  const double r = static_cast<double>(link.ranks);
  link.alpha /= 2 * std::log2(r);
  link.beta /= 2 * (r - 1) / r;
}

double allreduce_seconds(double alpha, double beta, double bytes, double r) {
  return r <= 1 ? 0 : 2 * std::log2(r) * alpha + 2 * (r - 1) / r * beta * bytes;
}

namespace {
constexpr double PieceTimes::*kPerSample[] = {
    &PieceTimes::block_forward,      &PieceTimes::block_input,  &PieceTimes::block_weight,
    &PieceTimes::block_selective,    &PieceTimes::block_refill, &PieceTimes::embedding_forward,
    &PieceTimes::embedding_backward, &PieceTimes::head};

Link link_of(const MeasuredLink& m) { return {m.alpha, m.beta > 0 ? 1 / m.beta : 1e14}; }
}  // namespace

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
  c.intra_node = link_of(*link);
  c.inter_node = c.intra_node;
  const auto sum = std::ranges::find(calibration.allreduce, transport, &MeasuredLink::transport);
  c.reduction_intra_node = sum == calibration.allreduce.end() ? c.intra_node : link_of(*sum);
  c.reduction_inter_node = c.reduction_intra_node;
  return c;
}

PieceTimes measured_times(const Calibration& calibration, const model::ModelConfig& m, Index B,
                          Index T) {
  const MeasuredStep *near = nullptr, *next = nullptr;  // the two nearest B
  const auto distance = [&](const MeasuredStep* s) {
    return s ? std::abs(std::log2(static_cast<double>(s->B) / static_cast<double>(B))) : 1e9;
  };
  for (const MeasuredStep& s : calibration.steps) {
    if (s.C != m.n_embd || s.H != m.n_head || s.V != m.vocab_size || s.T != T) continue;
    if (s.threads != calibration.steps.front().threads) continue;  // another device
    if (s.dropout != (m.embd_pdrop + m.attn_pdrop + m.resid_pdrop > 0)) continue;
    if (distance(&s) < distance(near))
      next = near && near->B != s.B ? std::exchange(near, &s) : (near = &s, next);
    else if (s.B != near->B && distance(&s) < distance(next))
      next = &s;
  }
  if (near == nullptr)
    FailUsage("the calibration has no step of width ", m.n_embd, ", ", m.n_head,
              " heads, vocabulary ", m.vocab_size, ", sequence ", T, " and ",
              m.embd_pdrop + m.attn_pdrop + m.resid_pdrop > 0 ? "dropout" : "no dropout",
              "; measure it with `chimera bench step --model MODEL --sequence ", T,
              " --save FILE`");
  PieceTimes out = near->times;
  const double b = static_cast<double>(B), b0 = static_cast<double>(near->B),
               b1 = next ? static_cast<double>(next->B) : 0;
  for (double PieceTimes::*piece : kPerSample) {
    const double t0 = near->times.*piece;
    // Through both where there are two, else proportional; never below half of proportional.
    const double line = next ? t0 + (next->times.*piece - t0) * (b - b0) / (b1 - b0) : t0 * b / b0;
    out.*piece = std::max(line, 0.5 * t0 * b / b0);
  }
  return out;
}

}  // namespace chimera::plan
