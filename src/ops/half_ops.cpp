#include "chimera/ops/half_ops.h"

#include <algorithm>
#include <array>

#include "checks.h"
#include "chimera/device/device.h"
#include "chimera/tensor/half.h"
#include "chimera/tensor/layout.h"

namespace chimera {
namespace {

bool needs_fp32(const Operand& x) {
  return x.access != Access::Native && contract::is_half(x.tensor->type());
}

class Widening final : public OpInterceptor {
 public:
  void run(const OpCall& op, const std::function<void()>& call) override {
    std::array<std::pair<Operand, Tensor>, kMost> widened;  // each with its 16-bit tensor
    std::size_t count = 0;
    for (const Operand& x : op.operands) {
      if (!needs_fp32(x)) continue;
      const Tensor half = *x.tensor;
      *x.tensor = copy_of(half, buffers_.at(count));
      if (x.access != Access::Write) widen(x.tensor->f32(), half);
      widened.at(count++) = {x, half};
    }
    call();
    for (std::size_t i = 0; i < count; ++i) {
      const auto& [x, half] = widened[i];
      if (x.access != Access::Read) round_into(half, x.tensor->f32());
      *x.tensor = half;
    }
  }
  bool decomposes(std::span<const Operand> operands) const override {
    return std::ranges::any_of(operands, needs_fp32);
  }

 private:
  static constexpr std::size_t kMost = 8;  // 16-bit tensors of one call

  // Room for x in fp32. Not filled.
  Tensor copy_of(const Tensor& x, Buffer& buffer) {
    Region region{0, DType::F32, x.rank(), {}};
    for (int i = 0; i < x.rank(); ++i) region.shape[static_cast<std::size_t>(i)] = x.dim(i);
    const Index bytes = std::max<Index>(region.bytes(), 1);
    if (buffer.bytes() < bytes) buffer = Buffer(*device_, bytes);
    return Flat{buffer.data()}.at(region);
  }

  std::unique_ptr<Device> device_ = make_host_device();
  std::array<Buffer, kMost> buffers_;
};

}  // namespace

std::unique_ptr<Ops> make_half_ops(std::unique_ptr<Ops> inner) {
  inner->add_interceptor(std::make_unique<Widening>());
  return inner;
}

}  // namespace chimera
