// Sizes at which the kernels change their way of working.
#include "kernels/kernel_support.h"
#include "on_device.h"

using namespace chimera;
using namespace chimera::test;

// Forward a row of 2,048 numbers stays in registers; the gradient of the input alone keeps rows of
// 6,144 in shared memory; all gradients in one pass take rows of 2,048.
TEST_CASE("layernorm: rows too long for registers or shared memory are the CPU's to rounding") {
  const auto cpu = make_cpu_ops();
  on_every_machine([&](Ops& gpu) {
    for (const Index C : {Index{512}, Index{516}, Index{2048}, Index{3073}, Index{6148}}) {
      INFO(C << " columns");
      const Index R = 3;
      const auto run = [&](Ops& ops) {
        Floats x = random_floats(R * C, 1), gain = random_floats(C, 2), bias = random_floats(C, 3);
        Floats dy = random_floats(R * C, 4), y(x.size()), dx = random_floats(R * C, 5), all = dx;
        Floats mean(static_cast<std::size_t>(R)), rstd(mean.size()), dgain = gain, dbias = bias;
        Floats sum(x.size()), normed(x.size());
        const Tensor m = tensor(mean, {R}), s = tensor(rstd, {R}), rows = tensor(x, {R, C});
        ops.layernorm_forward(tensor(y, {R, C}), m, s, rows, tensor(gain, {C}), tensor(bias, {C}),
                              1e-5f);
        ops.layernorm_backward_input(tensor(dx, {R, C}), m, s, tensor(dy, {R, C}), rows,
                                     tensor(gain, {C}), Write::Add);
        ops.layernorm_backward(tensor(all, {R, C}), tensor(dgain, {C}), tensor(dbias, {C}), m, s,
                               tensor(dy, {R, C}), rows, tensor(gain, {C}), Write::Add);
        ops.residual_layernorm_forward(tensor(normed, {R, C}), m, s, tensor(sum, {1, R, C}),
                                       tensor(x, {1, R, C}), tensor(dy, {1, R, C}),
                                       tensor(gain, {C}), tensor(bias, {C}), 1e-5f, {});
        return std::vector<Floats>{y, mean, rstd, dx, all, dgain, dbias, sum, normed};
      };
      const auto got = run(gpu), expected = run(*cpu);
      for (std::size_t i = 0; i < got.size(); ++i)
        CHECK(distance(got[i], widen(expected[i])) <= kFp32);
    }
  });
}

// Chunks of 8 rows up to 768 of them, then longer ones; the last may be short.
TEST_CASE("layernorm backward: every number of chunks gives the CPU's sums to rounding") {
  const auto cpu = make_cpu_ops();
  on_every_machine([&](Ops& gpu) {
    for (const Index R : {1, 8, 9, 6144, 6151}) {
      INFO(R << " rows");
      const Index C = 12;
      const auto run = [&](Ops& ops) {
        Floats x = random_floats(R * C, 1), dy = random_floats(R * C, 2),
               gain = random_floats(C, 3), mean = random_floats(R, 4), rstd = random_floats(R, 5),
               dgain = random_floats(C, 6), dbias = random_floats(C, 7);
        ops.layernorm_backward(tensor(x, {R, C}), tensor(dgain, {C}), tensor(dbias, {C}),
                               tensor(mean, {R}), tensor(rstd, {R}), tensor(dy, {R, C}),
                               tensor(x, {R, C}), tensor(gain, {C}), Write::Set);
        return std::vector<Floats>{x, dgain, dbias};
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
