// AdamW in one pass: 28 bytes per parameter, so memory bandwidth is the limit.
#include "per_isa.h"
#include "vec.h"

namespace {

void adamw(float* param, float* m, float* v, const float* grad,
           const chimera::cpu::AdamWNumbers& numbers, Index begin, Index end) {
  const auto k = numbers;
  for_vectors(begin, end, [&](Index i, auto n) {
    const Vec g = load(grad + i, n) * k.grad_scale;
    const Vec first = load(m + i, n) * k.beta1 + g * (1.0f - k.beta1);
    const Vec second = load(v + i, n) * k.beta2 + g * g * (1.0f - k.beta2);
    const Vec step = (first * k.m_correction) / (sqrt(second * k.v_correction) + k.epsilon);
    store(m + i, first, n);
    store(v + i, second, n);
    store(param + i, load(param + i, n) * k.decay_factor - step * k.rate, n);
  });
}

}  // namespace

namespace chimera::cpu::CHIMERA_ISA {
void add_adamw(Kernels& k) { k.adamw = adamw; }
}  // namespace chimera::cpu::CHIMERA_ISA
