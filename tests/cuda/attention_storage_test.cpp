// Attention over bf16 and fp16 against float64 over the same numbers. Probabilities, dS and results
// are rounded to the storage type: each by half a unit, so a few units of kRounding in all.
#include "chimera/ops/contract.h"
#include "kernels/references.h"
#include "storage.h"

using namespace chimera;
using namespace chimera::test;

namespace {

template <class T>
void check_attention() {
  // Heads of less than a fragment, odd, of each kernel, and beyond the tensor cores'; sequences of
  // one token, around tiles of 64, with every remainder by 4.
  const std::vector<AttentionSizes> sizes{{2, 3, 1, 1},     {1, 2, 7, 5},    {2, 2, 65, 32},
                                          {1, 2, 64, 40},   {1, 1, 130, 64}, {1, 2, 66, 80},
                                          {1, 1, 131, 128}, {1, 1, 35, 200}};
  for (const AttentionSizes& s : sizes)
    for (const float probability : {0.0f, 0.3f}) {
      INFO(s.B << " x " << s.H << " x " << s.T << " x " << s.head << ", dropout " << probability);
      const Dropout dropout{probability, 99, 5, 3, DropoutSite::Attention};
      const Index C = s.C(), n = s.B * s.T * C;
      Floats qkv = storable<T>(3 * n, 1), dout = storable<T>(n, 2);
      Floats lse(static_cast<std::size_t>(s.B * s.H * s.T)), out(dout.size());
      const auto [shape, mask] =
          contract::attention("attention", tensor(qkv, {s.B, s.T, 3, C}), s.H, dropout);
      const auto forward = attention_reference(widen(qkv), s, dropout);
      const auto gradient = attention_gradient(widen(dout), widen(qkv), s, dropout);
      Floats first;  // the bits are those of every other order
      for_every_order([&, &shape = shape, &mask = mask] {
        const auto device = make_cuda_device(0);
        const cudaStream_t stream = device->stream();
        const Array<T> d_qkv(*device, qkv), d_dout(*device, dout), d_out(*device, out);
        const Array<T> d_dqkv(*device, qkv);
        const Array<float> d_lse(*device, lse), d_delta(*device, lse);
        const T* q = d_qkv.get();
        T* dq = d_dqkv.get();
        cuda::attention_forward<T>(d_out.get(), d_lse.get(), q, q + C, q + 2 * C, shape, mask,
                                   stream);
        cuda::attention_backward<T>(dq, dq + C, dq + 2 * C, d_delta.get(), d_dout.get(),
                                    d_out.get(), d_lse.get(), q, q + C, q + 2 * C, shape, mask,
                                    stream);
        CHECK(distance(d_out.read(), forward.out) <= kRounding<T>);
        CHECK(distance(d_lse.read(), forward.lse) <= kFp32);  // nothing rounded
        CHECK(distance(d_dqkv.read(), gradient) <= 2 * kRounding<T>);
        if (first.empty()) first = d_dqkv.read();
        CHECK(d_dqkv.read() == first);
      });
    }
}

}  // namespace

TEST_CASE("storage: attention over bf16 matches float64 to rounding, with dropout too") {
  check_attention<__nv_bfloat16>();
}
TEST_CASE("storage: attention over fp16 matches float64 to rounding, with dropout too") {
  check_attention<__half>();
}
