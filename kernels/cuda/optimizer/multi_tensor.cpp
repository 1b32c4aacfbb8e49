#include "multi_tensor.h"

#include <algorithm>
#include <cstring>

#include "chimera/ops/contract.h"

namespace chimera::cuda {
namespace {

float* floats(const Tensor& x) { return x.empty() ? nullptr : x.f32(); }

AdamWEntry entry_of(const AdamWTensor& x, const AdamWNumbers& numbers, Index chunk) {
  const bool wide = aligned(floats(x.param), floats(x.m), floats(x.v), floats(x.grad)) &&
                    reinterpret_cast<std::uintptr_t>(x.weight.raw()) % 8 == 0;
  return {.param = floats(x.param),
          .m = floats(x.m),
          .v = floats(x.v),
          .grad = floats(x.grad),
          .weight = x.weight.raw(),
          .n = x.param.size(),
          .first = x.first,
          .rate = numbers.rate,
          .decay_factor = numbers.decay_factor,
          .order = static_cast<std::uint32_t>(x.order),
          .chunk = narrow<std::uint32_t>(chunk),
          .half = x.weight.type() == DType::F16,
          .wide = wide};
}

}  // namespace

void MultiTensor::adamw(std::span<const AdamWTensor> tensors, const AdamWStep& step) {
  AdamWCommon common{.numbers = {}, .stochastic = step.stochastic, .key = {}, .step = {}};
  for (int i = 0; i < 2; ++i) {
    common.key[i] = static_cast<std::uint32_t>(step.seed >> 32 * i);
    common.step[i] = static_cast<std::uint32_t>(static_cast<std::uint64_t>(step.t) >> 32 * i);
  }
  updated_.clear();
  Index chunks = 0;
  for (const AdamWTensor& x : tensors) {
    common.numbers = contract::adamw_numbers(x, step);
    updated_.push_back(entry_of(x, common.numbers, chunks));
    chunks += ceil_div(x.param.size(), kAdamWChunk);
  }
  if (chunks == 0) return;
  cuda::adamw(uploads_.upload(std::span<const AdamWEntry>(updated_)),
              narrow<int>(std::ssize(updated_)), chunks, common, stream_);
}

void MultiTensor::sum_squares(std::span<double> sums, std::span<const Tensor> tensors,
                              std::span<BadId> found_on_host, const BadId* found) {
  summed_.clear();
  Index blocks = 0;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const float* x = floats(tensors[i]);
    summed_.push_back({x, tensors[i].size(), sums[i], blocks, aligned(x)});
    blocks += ceil_div(tensors[i].size(), Index{kSumBlock});
  }
  static_assert(sizeof(BadId) == sizeof(double));
  const Index count = std::ssize(summed_), results = count + std::ssize(found_on_host);
  double* memory = scratch_->get<double>(results + blocks);
  cuda::sum_squares(memory, memory + results, uploads_.upload(std::span<const SumEntry>(summed_)),
                    narrow<int>(count), blocks, found, narrow<int>(std::ssize(found_on_host)),
                    stream_);
  results_.resize(static_cast<std::size_t>(results));
  device_->copy_out(results_.data(), memory, results * Index{sizeof(double)});
  std::copy_n(results_.data(), count, sums.data());
  std::memcpy(found_on_host.data(), results_.data() + count, found_on_host.size_bytes());
}

}  // namespace chimera::cuda
