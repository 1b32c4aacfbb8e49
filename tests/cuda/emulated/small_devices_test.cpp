// Devices that give a block less than an H200 does.
#include "../on_device.h"
#include "../typed_arrays.h"
#include "chimera/ops/half_ops.h"
#include "emulator/control.h"

using namespace chimera;
using namespace chimera::test;

namespace {

// Output and gradient of attention, in an order of threads.
std::vector<Doubles> attend(Ops& ops, DType type, Index head, float probability) {
  const Index B = 1, T = 70, H = 2, C = H * head;
  const Dropout dropout{probability, 99, 5, 3, DropoutSite::Attention};
  TypedArrays a(type);
  const Tensor out = a.stored({B, T, C}), lse = a.fp32({B, H, T}), qkv = a.stored({B, T, 3, C});
  ops.attention_forward(out, lse, qkv, H, dropout);
  ops.attention_backward(a.stored({B, T, 3, C}), a.scratch({B, H, T}), a.stored({B, T, C}), out,
                         lse, qkv, H, dropout);
  return a.numbers();
}

}  // namespace

// 99 KiB of shared memory; tiles for heads of up to 128 numbers want 104 backward.
TEST_CASE("attention: GPUs of capability 8.6 and 8.9 take smaller tiles for large heads") {
  const auto cpu = make_half_ops(make_cpu_ops());
  const emulator::Options before = emulator::options();
  for (const int capability : {86, 89})
    for (const DType type : {DType::BF16, DType::F16})
      for (const float probability : {0.0f, 0.3f}) {
        const std::vector<Doubles> reference = attend(*cpu, type, 80, probability);
        std::vector<Doubles> first;
        for (const std::uint64_t seed : {0, 1, 7}) {
          emulator::Options options = before;
          options.capability = capability;
          options.seed = seed;
          emulator::reset(options);
          const auto got = attend(*make_on_device_ops(), type, 80, probability);
          for (std::size_t i = 0; i < got.size(); ++i) {
            INFO(to_string(type) << ", dropout " << probability << ", array " << i);
            CHECK(distance(got[i], reference[i]) <= 4 * rounding_unit(type));
          }
          if (first.empty()) first = got;
          CHECK(got == first);
        }
      }
  emulator::reset(before);
}
