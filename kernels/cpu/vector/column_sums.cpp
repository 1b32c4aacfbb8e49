// The gradient of a bias: column sums, a strip of columns at a time, rows in ascending order.
#include "per_isa.h"
#include "vec.h"

namespace {

constexpr Index kStrip = 512;

void bias_backward(float* dbias, const float* dy, Index R, Index N, Index begin, Index end) {
  for (Index strip = begin; strip < end; strip += kStrip) {
    const Index width = strip + kStrip < end ? kStrip : end - strip;
    float sum[kStrip] = {};
    for (Index r = 0; r < R; ++r) {
      const float* row = dy + r * N + strip;
      for_vectors(0, width,
                  [&](Index i, auto n) { store(sum + i, load(sum + i, n) + load(row + i, n), n); });
    }
    for_vectors(0, width, [&](Index i, auto n) {
      store(dbias + strip + i, load(dbias + strip + i, n) + load(sum + i, n), n);
    });
  }
}

}  // namespace

namespace chimera::cpu::CHIMERA_ISA {
void add_column_sums(Kernels& k) { k.bias_backward = bias_backward; }
}  // namespace chimera::cpu::CHIMERA_ISA
