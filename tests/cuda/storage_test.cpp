// The kernels over bf16 and fp16. Inputs are numbers of the storage type; the fp32 kernel over the
// same numbers is the reference, and the result may differ from it by the rounding of the storage
// type, half a unit: 2^-9 of the number for bf16, 2^-11 for fp16 (and by 2^-25 where fp16 is
// subnormal). The order of fp32 sums may differ, so twice as much is allowed.
#include "storage.h"
#include "cuda/device/scratch.h"
#include "cuda/matmul/matmul.h"
#include "cuda/ops/kernels.h"
#include "kernels/references.h"

using namespace chimera;
using namespace chimera::test;

namespace {

template <class T>
void check_close(const Floats& x, const Floats& reference) {
  REQUIRE(x.size() == reference.size());
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double r = static_cast<double>(reference[i]);
    const double error = std::abs(static_cast<double>(x[i]) - r);
    worst = std::max(worst, error / (std::abs(r) * kRounding<T> + 1e-6));
  }
  CHECK(worst <= 1);
}

// Everything that is stored in T, then what is fp32 in either case.
struct Results {
  std::vector<Floats> stored, statistics;
};

constexpr Index kB = 3, kT = 11, kR = kB * kT, kV = 70;

template <class T, class Storage>
Results run_all(CudaDevice& device, Index C, float probability) {
  using namespace chimera::cuda;
  const cudaStream_t stream = device.stream();
  Scratch scratch;
  const Buffer bad(device, 8);
  BadId* bad_id = reinterpret_cast<BadId*>(bad.data());
  const Index n = kR * C;
  const auto floats = [&](Index count, std::uint64_t seed) {
    return Array<T>(device, storable<Storage>(count, seed));
  };
  const auto statistics = [&](Index count, std::uint64_t seed) {
    return Array<float>(device, random_floats(count, seed));
  };
  Ids ids = random_ids(kR, kV, 3);
  Buffer tokens(device, kR * 4);
  device.copy_in(tokens.data(), ids.data(), tokens.bytes());
  const auto* token = reinterpret_cast<const std::int32_t*>(tokens.data());
  Mask mask;
  if (probability > 0)
    mask = {static_cast<std::int32_t>(std::ceil(probability * 0x1p24f)),
            1 / (1 - probability),
            {5, 6},
            7,
            8};
  Results out;
  const auto keep = [&](const Array<T>& x) { out.stored.push_back(x.read()); };
  const auto keep_statistics = [&](const Array<float>& x) { out.statistics.push_back(x.read()); };

  const auto x = floats(n, 1), d = floats(n, 2), y = floats(n, 9);
  gelu_forward(y.get(), x.get(), n, stream);
  keep(y);
  gelu_backward(y.get(), d.get(), x.get(), n, stream);
  keep(y);
  dropout_add(y.get(), x.get(), d.get(), mask, kB, kT * C, stream);
  keep(y);
  dropout_add<T>(y.get(), nullptr, d.get(), mask, kB, kT * C, stream);
  keep(y);

  const auto gain = floats(C, 4), bias = floats(C, 5);
  const auto mean = statistics(kR, 1), rstd = statistics(kR, 1), dgain = statistics(C, 6),
             dbias = statistics(C, 7);
  layernorm_forward(y.get(), mean.get(), rstd.get(), x.get(), gain.get(), bias.get(), 1e-5f, kR, C,
                    stream);
  keep(y);
  layernorm_backward_input(y.get(), mean.get(), rstd.get(), d.get(), x.get(), gain.get(), false, kR,
                           C, stream);
  keep(y);
  layernorm_backward_weight(dgain.get(), dbias.get(), mean.get(), rstd.get(), d.get(), x.get(), kR,
                            C, scratch, stream);
  cuda::bias_backward(dbias.get(), d.get(), kR, C, scratch, stream);
  for (const auto* s : {&mean, &rstd, &dgain, &dbias}) keep_statistics(*s);

  const auto wte = floats(kV * C, 7), wpe = floats(kT * C, 8);
  const auto dwte = statistics(kV * C, 9), dwpe = statistics(kT * C, 10);
  embedding_forward(y.get(), token, wte.get(), wpe.get(), bad_id, kT, kR, C, kV, stream);
  keep(y);
  embedding_backward(dwte.get(), dwpe.get(), d.get(), token, bad_id, kT, kR, C, kV, scratch,
                     stream);
  keep_statistics(dwte);
  keep_statistics(dwpe);

  // Three rows after ten that the cache holds.
  const Index heads = C % 2 == 0 ? 2 : 1, first = 10, rows = 3;
  const auto keys = floats(20 * C, 13), values = floats(20 * C, 14), qkv = floats(rows * 3 * C, 15),
             attended = floats(rows * C, 16);
  attention_cached(attended.get(), keys.get(), values.get(), qkv.get(),
                   {1, heads, rows, C / heads, first, 3 * C, C, rows * 3 * C, rows * 3 * C, C},
                   stream);
  for (const auto* a : {&attended, &keys, &values}) keep(*a);

  const auto logits = floats(kR * kV, 11);
  const auto losses = statistics(kR, 12);
  cross_entropy(losses.get(), logits.get(), token, bad_id, 0.1f, 0.5f, true, kR, kV, stream);
  keep(logits);
  keep_statistics(losses);
  return out;
}

template <class T>
void check_storage() {
  for_every_order([] {
    const auto device = make_cuda_device(0);
    for (const Index C : {Index{5}, Index{48}, Index{131}})
      for (const float probability : {0.0f, 0.4f}) {
        INFO(C << " columns, dropout " << probability);
        const Results got = run_all<T, T>(*device, C, probability);
        const Results expected = run_all<float, T>(*device, C, probability);
        for (std::size_t i = 0; i < expected.stored.size(); ++i) {
          INFO("stored result " << i);
          check_close<T>(got.stored[i], expected.stored[i]);
        }
        for (std::size_t i = 0; i < expected.statistics.size(); ++i) {
          INFO("statistic " << i);
          // Only the packs differ, and with them the order of fp32 sums.
          CHECK(distance(got.statistics[i], widen(expected.statistics[i])) <= 1e-6);
        }
      }
  });
}

// out in fp32 and in T from a and b in T, with everything that a layer needs.
template <class T>
void check_matmul() {
  for_every_order([] {
    const auto device = make_cuda_device(0);
    cuda::AutotuneCache cache;
    cuda::Matmul matmul(device->stream(), {}, cache);
    const Index M = 40, N = 24, K = 56;
    const Floats a = storable<T>(M * K, 1), b = storable<T>(K * N, 2), bias = storable<T>(N, 3),
                 before = storable<T>(M * N, 4);
    Doubles expected(static_cast<std::size_t>(M * N));
    for (Index i = 0; i < M * N; ++i) {
      const auto number = [](const Floats& x, Index at) {
        return static_cast<double>(x[static_cast<std::size_t>(at)]);
      };
      double sum = number(before, i);
      for (Index k = 0; k < K; ++k) sum += number(a, i / N * K + k) * number(b, k * N + i % N);
      expected[static_cast<std::size_t>(i)] = sum;
    }
    const Array<T> da(*device, a), db(*device, b), out(*device, before), zeros(*device, bias);
    const Array<float> wide(*device, before);
    matmul.run({wide.get(), da.get(), db.get(), nullptr, kStorage<T>, DType::F32, false, false,
                true, M, N, K});
    CHECK(distance(wide.read(), expected) <= kFp32);
    matmul.run({out.get(), da.get(), db.get(), zeros.get(), kStorage<T>, kStorage<T>, false, false,
                true, M, N, K});
    for (Index i = 0; i < M * N; ++i)
      expected[static_cast<std::size_t>(i)] +=
          static_cast<double>(bias[static_cast<std::size_t>(i % N)]);
    CHECK(distance(out.read(), expected) <= kRounding<T>);
  });
}

}  // namespace

TEST_CASE("storage: kernels over bf16 give fp32's results to rounding") {
  check_storage<__nv_bfloat16>();
}
TEST_CASE("storage: kernels over fp16 give fp32's results to rounding") { check_storage<__half>(); }
TEST_CASE("storage: products of bf16 and of fp16 into fp32 and into their own type") {
  check_matmul<__nv_bfloat16>();
  check_matmul<__half>();
}

TEST_CASE("matmul: timing its candidates changes no result, though out is added to") {
  for_every_order([] {
    const auto device = make_cuda_device(0);
    cuda::AutotuneCache cache;
    cuda::Matmul matmul(device->stream(), {.time_candidates = true}, cache);
    const Index n = 48;
    const Floats a = random_floats(n * n, 1), b = random_floats(n * n, 2);
    const Array<float> da(*device, a), db(*device, b), out(*device, a);
    for (int turn = 1; turn <= 2; ++turn) {  // timed, then found
      matmul.run({out.get(), da.get(), db.get(), nullptr, DType::F32, DType::F32, false, false,
                  true, n, n, n});
      Doubles expected =
          matmul_reference(widen(a), Transpose::No, widen(b), Transpose::No, n, n, n);
      for (std::size_t i = 0; i < expected.size(); ++i)
        expected[i] = turn * expected[i] + static_cast<double>(a[i]);
      CHECK(distance(out.read(), expected) <= kFp32);
    }
  });
}
