// Token and position embedding. Backward is split over columns: every thread walks all rows in
// ascending order over its own columns, so equal tokens need no atomics and the order is fixed.
#include "per_isa.h"
#include "vec.h"

namespace {

void embedding_forward(float* x, const int32_t* tokens, const float* wte, const float* wpe, Index T,
                       Index C, Index begin, Index end) {
  for (Index r = begin; r < end; ++r) {
    const float *token = wte + Index{tokens[r]} * C, *position = wpe + r % T * C;
    float* out = x + r * C;
    for_vectors(0, C, [&](Index i, auto n) {
      store(out + i, load(token + i, n) + load(position + i, n), n);
    });
  }
}

void embedding_backward(float* dwte, float* dwpe, const float* dx, const int32_t* tokens, Index R,
                        Index T, Index C, Index begin, Index end) {
  for (Index r = 0; r < R; ++r) {
    float* token = dwte + Index{tokens[r]} * C;
    float* position = dwpe == nullptr ? nullptr : dwpe + r % T * C;
    const float* row = dx + r * C;
    for_vectors(begin, end, [&](Index i, auto n) {
      const Vec d = load(row + i, n);
      store(token + i, load(token + i, n) + d, n);
      if (position != nullptr) store(position + i, load(position + i, n) + d, n);
    });
  }
}

}  // namespace

namespace chimera::cpu::CHIMERA_ISA {
void add_embedding(Kernels& k) {
  k.embedding_forward = embedding_forward;
  k.embedding_backward = embedding_backward;
}
}  // namespace chimera::cpu::CHIMERA_ISA
