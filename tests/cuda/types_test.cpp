// CudaOps over fp32, bf16 and fp16 against the CPU's ops, which compute in fp32 and round once. An
// op of several steps (Write::Add, the fused ones) may round between them or not: two units.
#include "chimera/ops/half_ops.h"
#include "on_device.h"
#include "typed_arrays.h"

using namespace chimera;
using namespace chimera::test;

namespace {

using Call = std::function<void(Ops&, TypedArrays&)>;
struct Named {
  std::string name;
  Call call;
};

// Half a unit in the last place of the type, relative; fp32 sums have another order.
double tolerance(const TypedArrays& arrays, std::size_t i) {
  return arrays.is_rounded(i) ? std::max(4 * rounding_unit(arrays.type()), kFp32) : kFp32;
}

void compare(const std::vector<Named>& calls) {
  const auto cpu = make_half_ops(make_cpu_ops());
  for (const DType type : {DType::F32, DType::BF16, DType::F16})
    for (const Named& c : calls) {
      TypedArrays expected(type);
      c.call(*cpu, expected);
      const auto reference = expected.numbers();
      on_every_machine([&](Ops& gpu) {
        INFO(c.name << " in " << to_string(type));
        TypedArrays arrays(type);
        c.call(gpu, arrays);
        const auto got = arrays.numbers();
        REQUIRE(got.size() == reference.size());
        for (std::size_t i = 0; i < got.size(); ++i) {
          INFO("array " << i);
          CHECK(distance(got[i], reference[i]) <= tolerance(arrays, i));
        }
      });
    }
}

const Dropout kDropout{0.3f, 5, 9, 2, DropoutSite::MlpResidual};

std::vector<Named> row_calls(Index R, Index C) {
  const Index V = 70;
  const auto norm = [=](TypedArrays& a) { return std::pair(a.fp32({R}), a.fp32({R})); };
  return {
      {"bias_backward",
       [=](Ops& o, TypedArrays& a) {
         o.bias_backward(a.fp32({C}), a.stored({R, C}));
       }},
      {"layernorm_forward",
       [=](Ops& o, TypedArrays& a) {
         const auto [mean, rstd] = norm(a);
         o.layernorm_forward(a.stored({R, C}), mean, rstd, a.stored({R, C}), a.stored({C}),
                             a.stored({C}), 1e-5f);
       }},
      {"layernorm_backward_input",
       [=](Ops& o, TypedArrays& a) {
         const auto [mean, rstd] = norm(a);
         o.layernorm_backward_input(a.stored({R, C}), mean, rstd, a.stored({R, C}),
                                    a.stored({R, C}), a.stored({C}), Write::Add);
       }},
      {"layernorm_backward_weight",
       [=](Ops& o, TypedArrays& a) {
         const auto [mean, rstd] = norm(a);
         o.layernorm_backward_weight(a.fp32({C}), a.fp32({C}), mean, rstd, a.stored({R, C}),
                                     a.stored({R, C}));
       }},
      {"gelu",
       [=](Ops& o, TypedArrays& a) {
         const Tensor x = a.stored({R, C});
         o.gelu_forward(a.stored({R, C}), x);
         o.gelu_backward(a.stored({R, C}), a.stored({R, C}), x);
       }},
      {"residual",
       [=](Ops& o, TypedArrays& a) {
         o.residual_forward(a.stored({3, R, C}), a.stored({3, R, C}), a.stored({3, R, C}),
                            kDropout);
         o.residual_backward(a.stored({3, R, C}), a.stored({3, R, C}), kDropout);
       }},
      {"embedding",
       [=](Ops& o, TypedArrays& a) {
         const Index rows = 3 * R;
         const Tensor tokens = a.ids(rows, V);
         o.embedding_forward(a.stored({rows, C}), tokens, a.stored({V, C}), a.stored({R, C}), R,
                             kDropout);
         o.embedding_backward(a.fp32_of_rounded({V, C}), a.fp32_of_rounded({R, C}),
                              a.stored({rows, C}), tokens, R, kDropout);
       }},
      {"cross_entropy", [=](Ops& o, TypedArrays& a) {
         o.cross_entropy(a.fp32({R}), a.stored({R, C}), a.ids(R, C), 0.1f, 0.5f, Gradient::InPlace);
       }}};
}

std::vector<Named> product_calls() {
  const auto no = Transpose::No, yes = Transpose::Yes;
  return {
      {"matmul with bias",
       [=](Ops& o, TypedArrays& a) {
         o.matmul(a.stored({33, 24}), a.stored({33, 40}), no, a.stored({40, 24}), no, Write::Set,
                  a.stored({24}));
       }},
      {"matmul into an fp32 gradient",
       [=](Ops& o, TypedArrays& a) {
         o.matmul(a.fp32({40, 24}), a.stored({33, 40}), yes, a.stored({33, 24}), no, Write::Add);
       }},
      {"matmul over no terms",
       [=](Ops& o, TypedArrays& a) {
         o.matmul(a.stored({5, 7}), a.stored({5, 0}), no, a.stored({0, 7}), no, Write::Add,
                  a.stored({7}));
         o.matmul(a.fp32({5, 7}), a.stored({5, 0}), no, a.stored({0, 7}), no, Write::Set);
       }},
      {"attention",
       [=](Ops& o, TypedArrays& a) {
         const Index B = 2, T = 37, H = 2, C = 48;
         const Tensor out = a.stored({B, T, C}), lse = a.fp32({B, H, T}),
                      qkv = a.stored({B, T, 3, C});
         o.attention_forward(out, lse, qkv, H, kDropout);
         o.attention_backward(a.stored({B, T, 3, C}), a.scratch({B, H, T}), a.stored({B, T, C}),
                              out, lse, qkv, H, kDropout);
       }},
      {"attention_cached", [=](Ops& o, TypedArrays& a) {
         o.attention_cached(a.stored({3, 48}), a.stored({20, 48}), a.stored({20, 48}),
                            a.stored({3, 3, 48}), 10, 2);
       }}};
}

}  // namespace

TEST_CASE("types: ops over rows of fp32, bf16 and fp16 are the CPU's to rounding") {
  for (const Index C : {5, 48, 131}) compare(row_calls(11, C));
}
TEST_CASE("types: products and attention in fp32, bf16 and fp16 are the CPU's to rounding") {
  compare(product_calls());
}
