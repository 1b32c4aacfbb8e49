// Softmax cross entropy. One pass finds the maximum and the sum of exponentials, chunk by chunk (a
// chunk is read twice, from the first-level cache); a second one writes the gradients.
#include <math.h>

#include "per_isa.h"
#include "vec.h"

namespace {

constexpr Index kChunk = 2048;

struct RowSums {
  float max;       // of the logits
  double exp_sum;  // sum of exp(logit - max)
  double logit_sum;
};

RowSums sum_row(const float* x, Index V, bool want_sum) {
  RowSums sums{-__builtin_inff(), 0, 0};
  for (Index begin = 0; begin < V; begin += kChunk) {
    const Index end = begin + kChunk < V ? begin + kChunk : V;
    Vec best = splat(-__builtin_inff()), total = {};
    for_vectors(begin, end, [&](Index i, auto n) {
      const Vec v = load(x + i, n);
      best = max(fill_tail(v, n, -__builtin_inff()), best);
      if (want_sum) total += v;
    });
    const float chunk_max = max_lanes(best);
    if (chunk_max > sums.max) {
      sums.exp_sum *= ::exp(static_cast<double>(sums.max) - static_cast<double>(chunk_max));
      sums.max = chunk_max;
    }
    const float m = sums.max;
    Vec part = {};
    for_vectors(begin, end,
                [&](Index i, auto n) { part += fill_tail(exp_upto_1(load(x + i, n) - m), n, 0); });
    sums.exp_sum += static_cast<double>(sum_lanes(part));
    sums.logit_sum += static_cast<double>(sum_lanes(total));
  }
  return sums;
}

void cross_entropy(float* losses, float* logits, const int32_t* targets, float smoothing,
                   float scale, bool gradient, Index V, Index begin, Index end) {
  const double s = static_cast<double>(smoothing), size = static_cast<double>(V);
  for (Index r = begin; r < end; ++r) {
    float* x = logits + r * V;
    const RowSums sums = sum_row(x, V, smoothing != 0);
    const double m = static_cast<double>(sums.max), log_sum = log(sums.exp_sum);
    const double nll = m - static_cast<double>(x[targets[r]]) + log_sum;
    const double uniform = smoothing != 0 ? m - sums.logit_sum / size + log_sum : 0.0;
    losses[r] = static_cast<float>((1 - s) * nll + s * uniform);
    if (!gradient) continue;
    const float factor = static_cast<float>(static_cast<double>(scale) / sums.exp_sum);
    const float shift = static_cast<float>(static_cast<double>(scale) * s / size);
    const float max_logit = sums.max;
    for_vectors(0, V, [&](Index i, auto n) {
      store(x + i, exp_upto_1(load(x + i, n) - max_logit) * factor - shift, n);
    });
    x[targets[r]] -= static_cast<float>(static_cast<double>(scale) * (1 - s));
  }
}

}  // namespace

namespace chimera::cpu::CHIMERA_ISA {
void add_cross_entropy(Kernels& k) { k.cross_entropy = cross_entropy; }
}  // namespace chimera::cpu::CHIMERA_ISA
