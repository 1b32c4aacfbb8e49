// AdamW over all tensors of a stage in one launch: a block per chunk, which it looks up in the
// table. 28 bytes per parameter (30 with a 16-bit weight), so memory bandwidth is the limit.
#include "ops/kernels.h"
#include "ops/packed.h"
#include "ops/philox.h"
#include "tensor_of_block.h"

namespace chimera::cuda {
namespace {

constexpr int W = kPack<float>;

// The random words of elements `element` ... element + 3 of a parameter.
__device__ void rounding_words(std::uint32_t (&words)[W], Index element, std::uint32_t order,
                               const AdamWCommon& s) {
  const auto block = static_cast<std::uint32_t>(element / 4);
  const std::uint32_t last = 0x80000000u | order;
  const uint4 a = philox({block, s.step[0], s.step[1], last}, s.key[0], s.key[1]);
  const int shift = static_cast<int>(element % 4);
  words[0] = a.x, words[1] = a.y, words[2] = a.z, words[3] = a.w;
  if (shift == 0) return;
  const uint4 b = philox({block + 1, s.step[0], s.step[1], last}, s.key[0], s.key[1]);
  const std::uint32_t both[2 * W] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
#pragma unroll
  for (int k = 0; k < W; ++k) {
#pragma unroll
    for (int d = 1; d < 4; ++d)
      if (d == shift) words[k] = both[k + d];
  }
}

// chimera/ops/stochastic.h is the specification of both.
__device__ void round_at_random(__nv_bfloat16& out, float x, std::uint32_t word) {
  const std::uint32_t bits = __float_as_uint(x);
  out = (bits & 0x7fffffffu) >= 0x7f800000u
            ? __float2bfloat16_rn(x)
            : __ushort_as_bfloat16(static_cast<unsigned short>((bits + (word >> 16)) >> 16));
}
__device__ void round_at_random(__half& out, float x, std::uint32_t word) {
  const std::uint32_t bits = __float_as_uint(x), sign = bits >> 16 & 0x8000u;
  const std::uint32_t rest = bits & 0x7fffffffu;
  std::uint32_t half;
  if (rest >= 0x47800000u) {
    out = __float2half_rn(x);
    return;
  } else if (rest >= 0x38800000u) {
    half = (rest + (word >> 19) - 0x38000000u) >> 13;
  } else {
    const float units = __uint_as_float(rest) * 16777216.0f;
    half = static_cast<std::uint32_t>(units);
    const float uniform = static_cast<float>(word >> 8) * (1 / 16777216.0f);
    half += units - static_cast<float>(half) > uniform;
  }
  out = __ushort_as_half(static_cast<unsigned short>(sign | half));
}

template <class T>
__device__ void store_weight(T* weight, const float (&p)[W], const std::uint32_t (&words)[W],
                             bool stochastic, Extent extent) {
  if (!stochastic) return store(weight, p, extent);
  T rounded[W];
#pragma unroll
  for (int k = 0; k < W; ++k) round_at_random(rounded[k], p[k], words[k]);
  Raw<T, W> raw;
  memcpy(raw.word, static_cast<const void*>(rounded), sizeof rounded);
  store_raw(weight, raw, extent);
}

__device__ void update_pack(const AdamWEntry& e, const AdamWCommon& common, Index i) {
  const AdamWNumbers& s = common.numbers;
  const Extent extent = extent_of(e.n - i, e.wide);
  Raw<float, W> raw[4];
  load_raw(raw[0], e.param + i, extent);
  load_raw(raw[1], e.m + i, extent);
  load_raw(raw[2], e.v + i, extent);
  load_raw(raw[3], e.grad + i, extent);
  float p[W], first[W], second[W], g[W];
  unpack(p, raw[0]);
  unpack(first, raw[1]);
  unpack(second, raw[2]);
  unpack(g, raw[3]);
#pragma unroll
  for (int k = 0; k < W; ++k) {
    g[k] *= s.grad_scale;
    first[k] = first[k] * s.beta1 + g[k] * (1.0f - s.beta1);
    second[k] = second[k] * s.beta2 + g[k] * g[k] * (1.0f - s.beta2);
    const float step =
        (first[k] * s.m_correction) / (sqrtf(second[k] * s.v_correction) + s.epsilon);
    p[k] = p[k] * e.decay_factor - step * e.rate;
  }
  store(e.param + i, p, extent);
  store(e.m + i, first, extent);
  store(e.v + i, second, extent);
  if (e.weight == nullptr) return;
  std::uint32_t words[W] = {};
  if (common.stochastic) rounding_words(words, e.first + i, e.order, common);
  if (e.half)
    store_weight(static_cast<__half*>(e.weight) + i, p, words, common.stochastic, extent);
  else
    store_weight(static_cast<__nv_bfloat16*>(e.weight) + i, p, words, common.stochastic, extent);
}

__global__ void __launch_bounds__(kThreads)
    adamw_kernel(const AdamWEntry* entries, int count, AdamWCommon common) {
  const AdamWEntry e = entries[tensor_of_block(
      count, blockIdx.x, [&](int i) { return static_cast<Index>(entries[i].chunk); })];
  const Index begin = (blockIdx.x - e.chunk) * kAdamWChunk;
  const Index end = begin + kAdamWChunk < e.n ? begin + kAdamWChunk : e.n;
#pragma unroll 2
  for (Index i = begin + static_cast<Index>(threadIdx.x) * W; i < end; i += kThreads * W)
    update_pack(e, common, i);
}

}  // namespace

void adamw(const AdamWEntry* entries, int count, Index chunks, const AdamWCommon& common,
           cudaStream_t stream) {
  if (chunks == 0) return;
  launch(adamw_kernel, narrow<unsigned>(chunks), kThreads, 0, stream, entries, count, common);
}

}  // namespace chimera::cuda
