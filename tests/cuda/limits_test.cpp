// Sizes at which the kernels change their way of working.
#include "kernels/kernel_support.h"
#include "on_device.h"

using namespace chimera;
using namespace chimera::test;

// 12,288 numbers fit into a block's shared memory, backward 6,144 (two per column).
TEST_CASE("layernorm: rows that do not fit into shared memory are the CPU's to rounding") {
  const auto cpu = make_cpu_ops();
  on_every_machine([&](Ops& gpu) {
    for (const Index C : {Index{3073}, Index{6148}, Index{12292}}) {
      INFO(C << " columns");
      const Index R = 3;
      const auto run = [&](Ops& ops) {
        Floats x = random_floats(R * C, 1), gain = random_floats(C, 2), bias = random_floats(C, 3);
        Floats dy = random_floats(R * C, 4), y(x.size()), dx = random_floats(R * C, 5);
        Floats mean(static_cast<std::size_t>(R)), rstd(mean.size());
        const Tensor m = tensor(mean, {R}), s = tensor(rstd, {R}), rows = tensor(x, {R, C});
        ops.layernorm_forward(tensor(y, {R, C}), m, s, rows, tensor(gain, {C}), tensor(bias, {C}),
                              1e-5f);
        ops.layernorm_backward_input(tensor(dx, {R, C}), m, s, tensor(dy, {R, C}), rows,
                                     tensor(gain, {C}), Write::Add);
        return std::vector<Floats>{y, mean, rstd, dx};
      };
      const auto got = run(gpu), expected = run(*cpu);
      for (std::size_t i = 0; i < got.size(); ++i)
        CHECK(distance(got[i], widen(expected[i])) <= kFp32);
    }
  });
}

// Column sums over one chunk of rows, several, and as many as there may be; strips that end early.
TEST_CASE("column sums: every number of chunks gives the CPU's sums to rounding") {
  const auto cpu = make_cpu_ops();
  on_every_machine([&](Ops& gpu) {
    for (const Index R : {1, 31, 33, 257, 4096, 4999}) {
      const Index N = 37;
      Floats dy = random_floats(R * N, 1), got = random_floats(N, 2), expected = got;
      gpu.bias_backward(tensor(got, {N}), tensor(dy, {R, N}));
      cpu->bias_backward(tensor(expected, {N}), tensor(dy, {R, N}));
      CHECK(distance(got, widen(expected)) <= kFp32);
    }
  });
}

TEST_CASE("dropout: more samples than a grid has rows") {
  const Index B = 66'000, T = 1, C = 3;
  Floats x = random_floats(B * C, 1), got(x.size()), expected(x.size());
  const Dropout dropout{0.5f, 1, 0, 0, DropoutSite::MlpResidual};
  test_ops()->residual_backward(tensor(got, {B, T, C}), tensor(x, {B, T, C}), dropout);
  make_cpu_ops()->residual_backward(tensor(expected, {B, T, C}), tensor(x, {B, T, C}), dropout);
  CHECK(got == expected);
}
