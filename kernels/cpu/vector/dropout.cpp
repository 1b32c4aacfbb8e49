// out = residual + dropout(branch), and dropout alone.
#include "per_isa.h"
#include "philox.h"

namespace {

template <bool kResidual, bool kDropout>
void add_range(float* out, const float* residual, const float* branch, const Mask& mask,
               uint64_t sample, Index begin, Index end) {
  for (Index i = begin; i < end; i += 2 * kLanes) {
    Vec scales[2] = {splat(1), splat(1)};
    if (kDropout) dropout_scales(scales, static_cast<uint64_t>(i) / 4, sample, mask);
    for (int half = 0; half < 2; ++half) {
      const Index from = i + half * kLanes;
      const Index to = from + kLanes < end ? from + kLanes : end;
      for_vectors(from, to, [&](Index j, auto n) {
        const Vec x = kDropout ? load(branch + j, n) * scales[half] : load(branch + j, n);
        store(out + j, kResidual ? load(residual + j, n) + x : x, n);
      });
    }
  }
}

void dropout_add(float* out, const float* residual, const float* branch, const Mask& mask,
                 Index sample_size, Index begin, Index end) {
  constexpr Index kChunk = chimera::cpu::kDropoutChunk;
  const Index per_sample = (sample_size + kChunk - 1) / kChunk;
  for (Index chunk = begin; chunk < end; ++chunk) {
    const Index b = chunk / per_sample, from = chunk % per_sample * kChunk;
    const Index to = from + kChunk < sample_size ? from + kChunk : sample_size;
    const Index offset = b * sample_size;
    const uint64_t sample = static_cast<uint64_t>(mask.first_sample + b);
    const auto add = residual != nullptr
                         ? (mask.threshold != 0 ? add_range<true, true> : add_range<true, false>)
                         : (mask.threshold != 0 ? add_range<false, true> : add_range<false, false>);
    add(out + offset, residual == nullptr ? nullptr : residual + offset, branch + offset, mask,
        sample, from, to);
  }
}

}  // namespace

namespace chimera::cpu::CHIMERA_ISA {
void add_dropout(Kernels& k) { k.dropout_add = dropout_add; }
}  // namespace chimera::cpu::CHIMERA_ISA
