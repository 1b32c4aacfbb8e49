// What this machine can do at most: multiply-adds from registers, and the STREAM triad.
#include "per_isa.h"
#include "vec.h"

namespace {

double fma_loop(Index rounds, float* sink) {
  constexpr int kChains = 10;  // more than latency times throughput needs, fewer than registers
  Vec chain[kChains];
#pragma GCC unroll 10
  for (int c = 0; c < kChains; ++c) chain[c] = splat(1.0f + 0.01f * static_cast<float>(c));
  Vec a = splat(0.999999f), b = splat(1e-6f);
  for (Index r = 0; r < rounds; ++r) {
#pragma GCC unroll 10
    for (int c = 0; c < kChains; ++c) chain[c] = chain[c] * a + b;
    asm volatile("" : "+m"(sink[0]));  // the rounds are not folded together
  }
  Vec total = {};
#pragma GCC unroll 10
  for (int c = 0; c < kChains; ++c) total += chain[c];
  sink[0] = sum_lanes(total);
  return 2.0 * kLanes * kChains * static_cast<double>(rounds);
}

void triad(float* a, const float* b, const float* c, float s, Index begin, Index end) {
  for_vectors(begin, end,
              [&](Index i, auto n) { store(a + i, load(b + i, n) + load(c + i, n) * s, n); });
}

void exp_all(float* y, const float* x, Index begin, Index end) {
  for_vectors(begin, end, [&](Index i, auto n) { store(y + i, exp(load(x + i, n)), n); });
}

}  // namespace

namespace chimera::cpu::CHIMERA_ISA {
void add_machine_limits(Kernels& k) {
  k.fma_loop = fma_loop;
  k.triad = triad;
  k.exp = exp_all;
}
}  // namespace chimera::cpu::CHIMERA_ISA
