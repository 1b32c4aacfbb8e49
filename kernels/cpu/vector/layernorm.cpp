// Layer normalisation. A row stays in the first-level cache, so the variance is summed around the
// mean in a second pass over it: no cancellation.
#include "per_isa.h"
#include "vec.h"

namespace {

// Two sums over a row in vectors; four accumulators each hide the latency of the additions.
template <class Term>
CHIMERA_INLINE float sum_row(Index C, const Term& term) {
  constexpr int kParts = 4;
  Vec part[kParts] = {};
  Index c = 0;
  for (; c + kParts * kLanes <= C; c += kParts * kLanes)
    for (int p = 0; p < kParts; ++p) part[p] += term(c + p * kLanes, Full{});
  for_vectors(c, C, [&](Index i, auto n) { part[0] += term(i, n); });
  return sum_lanes((part[0] + part[1]) + (part[2] + part[3]));
}

void layernorm_forward(float* y, float* mean, float* rstd, const float* x, const float* gain,
                       const float* bias, float epsilon, Index C, Index begin, Index end) {
  const float inverse = 1.0f / static_cast<float>(C);
  for (Index r = begin; r < end; ++r) {
    const float* row = x + r * C;
    float* out = y + r * C;
    const float m = sum_row(C, [&](Index i, auto n) { return load(row + i, n); }) * inverse;
    const float variance = sum_row(C,
                                   [&](Index i, auto n) {
                                     const Vec d = fill_tail(load(row + i, n), n, m) - m;
                                     return d * d;
                                   }) *
                           inverse;
    const float s = 1.0f / __builtin_sqrtf(variance + epsilon);
    for_vectors(0, C, [&](Index i, auto n) {
      store(out + i, (load(row + i, n) - m) * s * load(gain + i, n) + load(bias + i, n), n);
    });
    mean[r] = m;
    rstd[r] = s;
  }
}

void layernorm_backward_input(float* dx, const float* mean, const float* rstd, const float* dy,
                              const float* x, const float* gain, bool add, Index C, Index begin,
                              Index end) {
  const float inverse = 1.0f / static_cast<float>(C);
  for (Index r = begin; r < end; ++r) {
    const float *dy_row = dy + r * C, *x_row = x + r * C;
    float* out = dx + r * C;
    const float m = mean[r], s = rstd[r];
    // A lane beyond the tail has dy = 0, so it adds nothing.
    const float average =
        sum_row(C, [&](Index i, auto n) { return load(dy_row + i, n) * load(gain + i, n); }) *
        inverse;
    const float projection = sum_row(C,
                                     [&](Index i, auto n) {
                                       const Vec g = load(dy_row + i, n) * load(gain + i, n);
                                       return g * ((load(x_row + i, n) - m) * s);
                                     }) *
                             inverse;
    for_vectors(0, C, [&](Index i, auto n) {
      const Vec g = load(dy_row + i, n) * load(gain + i, n);
      const Vec xhat = (load(x_row + i, n) - m) * s;
      const Vec d = (g - average - xhat * projection) * s;
      store(out + i, add ? load(out + i, n) + d : d, n);
    });
  }
}

constexpr Index kStrip = 256;  // columns summed at once, in the first-level cache

void layernorm_backward_weight(float* dgain, float* dbias, const float* mean, const float* rstd,
                               const float* dy, const float* x, Index R, Index C, Index begin,
                               Index end) {
  for (Index strip = begin; strip < end; strip += kStrip) {
    const Index width = strip + kStrip < end ? kStrip : end - strip;
    float gain_sum[kStrip] = {}, bias_sum[kStrip] = {};
    for (Index r = 0; r < R; ++r) {
      const float *dy_row = dy + r * C + strip, *x_row = x + r * C + strip;
      const float m = mean[r], s = rstd[r];
      for_vectors(0, width, [&](Index i, auto n) {
        const Vec d = load(dy_row + i, n);
        const Vec xhat = (load(x_row + i, n) - m) * s;
        store(gain_sum + i, load(gain_sum + i, n) + d * xhat, n);
        store(bias_sum + i, load(bias_sum + i, n) + d, n);
      });
    }
    for_vectors(0, width, [&](Index i, auto n) {
      store(dgain + strip + i, load(dgain + strip + i, n) + load(gain_sum + i, n), n);
      store(dbias + strip + i, load(dbias + strip + i, n) + load(bias_sum + i, n), n);
    });
  }
}

}  // namespace

namespace chimera::cpu::CHIMERA_ISA {
void add_layernorm(Kernels& k) {
  k.layernorm_forward = layernorm_forward;
  k.layernorm_backward_input = layernorm_backward_input;
  k.layernorm_backward_weight = layernorm_backward_weight;
}
}  // namespace chimera::cpu::CHIMERA_ISA
