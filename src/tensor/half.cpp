#include "chimera/tensor/half.h"

#include <algorithm>

namespace chimera {
namespace {

// fp32's bits of 2^-14, the smallest normal fp16, and of the first number that rounds to infinity:
// 65520.
constexpr std::uint32_t kSmallestNormal = 0x38800000u, kOverflow = 0x477ff000u;
constexpr std::uint32_t kExponentShift = std::uint32_t{127 - 15} << 23;

template <class From>
void widen_all(float* out, const void* x, Index n, From from) {
  const auto* in = static_cast<const std::uint16_t*>(x);
  for (Index i = 0; i < n; ++i) out[i] = from(in[i]);
}

template <class To>
void round_all(void* out, const float* x, Index n, To to) {
  auto* into = static_cast<std::uint16_t*>(out);
  for (Index i = 0; i < n; ++i) into[i] = to(x[i]);
}

}  // namespace

float from_f16(std::uint16_t half) {
  const std::uint32_t sign = std::uint32_t{half & 0x8000u} << 16, rest = half & 0x7fffu;
  const auto with_sign = [&](std::uint32_t bits) { return std::bit_cast<float>(sign | bits); };
  if (rest >= 0x7c00u) return with_sign(0x7f800000u | (rest & 0x3ffu) << 13);
  if (rest >= 0x400u) return with_sign((rest << 13) + kExponentShift);
  return with_sign(std::bit_cast<std::uint32_t>(static_cast<float>(rest) * 0x1p-24f));
}

std::uint16_t to_f16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t sign = bits >> 16 & 0x8000u, rest = bits & 0x7fffffffu;
  const auto with_sign = [&](std::uint32_t half) {
    return static_cast<std::uint16_t>(sign | half);
  };
  if (rest > 0x7f800000u) return with_sign(0x7e00u);
  if (rest >= kOverflow) return with_sign(0x7c00u);
  // Subnormal: beside 0.5 the last place of fp32 is that of fp16's, 2^-24, so the sum is rounded.
  if (rest < kSmallestNormal)
    return with_sign(std::bit_cast<std::uint32_t>(std::bit_cast<float>(rest) + 0.5f) -
                     std::bit_cast<std::uint32_t>(0.5f));
  return with_sign((rest + 0xfffu + (rest >> 13 & 1u) - kExponentShift) >> 13);
}

void widen(float* out, const Tensor& x) {
  switch (x.type()) {
    case DType::F32: std::copy_n(x.f32(), x.size(), out); return;
    case DType::BF16: return widen_all(out, x.raw(), x.size(), from_bf16);
    case DType::F16: return widen_all(out, x.raw(), x.size(), from_f16);
    default: Fail("numbers of ", to_string(x.type()), " cannot be widened to F32");
  }
}

void round_into(const Tensor& out, const float* x) {
  switch (out.type()) {
    case DType::F32: std::copy_n(x, out.size(), out.f32()); return;
    case DType::BF16: return round_all(out.raw(), x, out.size(), to_bf16);
    case DType::F16: return round_all(out.raw(), x, out.size(), to_f16);
    default: Fail("F32 cannot be rounded to ", to_string(out.type()));
  }
}

double rounding_unit(DType type) {
  switch (type) {
    case DType::F32: return 0x1p-24;
    case DType::BF16: return 0x1p-8;
    case DType::F16: return 0x1p-11;
    default: Fail(to_string(type), " is no type to compute in");
  }
}

DType parse_compute_type(const std::string& name) {
  if (name == "fp32") return DType::F32;
  if (name == "bf16") return DType::BF16;
  if (name == "fp16") return DType::F16;
  FailUsage("precision is \"", name, "\"; it must be fp32, bf16 or fp16");
}

}  // namespace chimera
