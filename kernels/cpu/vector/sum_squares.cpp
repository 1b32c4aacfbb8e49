// Sums of squares in double, block by block.
#include "per_isa.h"
#include "vec.h"

namespace {

typedef float HalfVec __attribute__((vector_size(2 * kLanes)));

CHIMERA_INLINE DVec widen(const float* p) {
  HalfVec v;
  memcpy(&v, p, sizeof v);
  return __builtin_convertvector(v, DVec);
}

double sum_block(const float* x, Index n) {
  constexpr Index kWidth = kLanes / 2;
  DVec part[4] = {};
  Index i = 0;
  for (; i + 4 * kWidth <= n; i += 4 * kWidth)
    for (int p = 0; p < 4; ++p) {
      const DVec v = widen(x + i + p * kWidth);
      part[p] += v * v;
    }
  const DVec total = (part[0] + part[1]) + (part[2] + part[3]);
  double sum = 0;
  for (int lane = 0; lane < kWidth; ++lane) sum += total[lane];
  for (; i < n; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return sum;
}

void sum_squares(double* partial, const float* x, Index n, Index begin, Index end) {
  constexpr Index kBlock = chimera::kSumBlock;
  for (Index block = begin; block < end; ++block) {
    const Index from = block * kBlock, rest = n - from;
    partial[block - begin] = sum_block(x + from, rest < kBlock ? rest : kBlock);
  }
}

}  // namespace

namespace chimera::cpu::CHIMERA_ISA {
void add_sum_squares(Kernels& k) { k.sum_squares = sum_squares; }
}  // namespace chimera::cpu::CHIMERA_ISA
