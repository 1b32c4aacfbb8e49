// cuDNN's attention against ours, on a GPU.
#include "../storage.h"
#include "cuda/attention/cudnn_attention.h"

#include <iostream>

using namespace chimera;
using namespace chimera::test;

namespace {

struct AttentionResults {
  Floats out, lse, dqkv;
  std::string used;
};

template <class T>
AttentionResults run_attention(CudaDevice& device, CudaImplementation choice, Index B, Index H,
                               Index S, Index head) {
  const Index C = H * head;
  const auto ops = make_cuda_ops(device, {.attention = choice});
  const auto stored = [&](Index n, std::uint64_t seed) {
    return Array<T>(device, storable<T>(n, seed));
  };
  const Array<T> qkv = stored(B * S * 3 * C, 1), dout = stored(B * S * C, 2),
                 out = stored(B * S * C, 3), dqkv = stored(B * S * 3 * C, 4);
  const Array<float> lse(device, random_floats(B * H * S, 5)),
      delta(device, random_floats(B * H * S, 6));
  const auto rows = [&](const Array<T>& a) { return Tensor(a.get(), kStorage<T>, {B, S, C}); };
  const auto packed = [&](const Array<T>& a) { return Tensor(a.get(), kStorage<T>, {B, S, 3, C}); };
  const auto heads = [&](const Array<float>& a) { return Tensor(a.get(), DType::F32, {B, H, S}); };
  ops->attention_forward(rows(out), heads(lse), packed(qkv), H, {});
  ops->attention_backward(packed(dqkv), heads(delta), rows(dout), rows(out), heads(lse),
                          packed(qkv), H, {});
  ops->check();
  return {out.read(), lse.read(), dqkv.read(), ops->describe()[1]};
}

// Probabilities and dS are rounded to T on the way to the tensor cores in both: twice the rounding
// of what is stored. lse stays in fp32; cuDNN's exponentials are the hardware's.
template <class T>
void check_against_ours() {
  const auto device = make_cuda_device(0);
  for (const auto& [B, H, S, head] :
       {std::tuple{2, 3, 128, 64}, std::tuple{1, 2, 77, 64}, std::tuple{1, 2, 200, 128}}) {
    const auto ours = run_attention<T>(*device, CudaImplementation::Own, B, H, S, head);
    const auto cudnn = run_attention<T>(*device, CudaImplementation::Library, B, H, S, head);
    INFO(cudnn.used);
    CHECK_THAT(cudnn.used, !Catch::Contains("not forward") && !Catch::Contains("not backward"));
    CHECK(distance(cudnn.out, widen(ours.out)) <= 2 * kRounding<T>);
    CHECK(distance(cudnn.lse, widen(ours.lse)) <= 1e-4);
    CHECK(distance(cudnn.dqkv, widen(ours.dqkv)) <= 4 * kRounding<T>);
    const auto again = run_attention<T>(*device, CudaImplementation::Library, B, H, S, head);
    CHECK(again.out == cudnn.out);
    CHECK(again.dqkv == cudnn.dqkv);
  }
}

}  // namespace

TEST_CASE("cudnn: attention is ours to rounding, and the same bits again") {
  const auto device = make_cuda_device(0);
  std::string reason;
  if (cuda::find_cudnn_attention(device->stream(), reason) == nullptr) {
    std::cout << "skipped: " << reason << '\n';
    return;
  }
  check_against_ours<__nv_bfloat16>();
  check_against_ours<__half>();
}
