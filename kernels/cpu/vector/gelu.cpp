// GELU, tanh approximation. 0.5 (1 + tanh(u)) = 1 / (1 + exp(-2u)) =: s, which keeps its relative
// accuracy where tanh(u) is near -1.
#include "per_isa.h"
#include "vec.h"

namespace {

constexpr float kTwoRoot = 1.5957691216f;  // 2 sqrt(2 / pi)
constexpr float kCubic = 0.044715f;

void gelu_forward(float* y, const float* x, Index begin, Index end) {
  for_vectors(begin, end, [&](Index i, auto n) {
    const Vec v = load(x + i, n);
    const Vec minus_2u = v * (v * v * (-kTwoRoot * kCubic) - kTwoRoot);
    store(y + i, v / (exp(minus_2u) + 1.0f), n);
  });
}

void gelu_backward(float* dx, const float* dy, const float* x, Index begin, Index end) {
  for_vectors(begin, end, [&](Index i, auto n) {
    // Beyond 10 in magnitude s (1 - s) is 0 in fp32; without the clamp it would meet an infinite
    // u'.
    const Vec raw = load(x + i, n);
    const Vec v = raw > 10.0f ? splat(10) : (raw < -10.0f ? splat(-10) : raw);
    const Vec square = v * v;
    const Vec minus_2u = v * (square * (-kTwoRoot * kCubic) - kTwoRoot);
    const Vec e = exp(minus_2u);
    const Vec s = 1.0f / (e + 1.0f);
    const Vec slope = square * (3 * kTwoRoot * kCubic) + kTwoRoot;  // 2 u'
    store(dx + i, load(dy + i, n) * (s + v * slope * (s * s * e)), n);
  });
}

}  // namespace

namespace chimera::cpu::CHIMERA_ISA {
void add_gelu(Kernels& k) {
  k.gelu_forward = gelu_forward;
  k.gelu_backward = gelu_backward;
}
}  // namespace chimera::cpu::CHIMERA_ISA
