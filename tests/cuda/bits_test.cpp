// Results that must be the same to the last bit: in every order of threads and blocks, and for what
// both backends compute by the same single operations.
#include "kernels/every_op.h"
#include "on_device.h"

using namespace chimera;
using namespace chimera::test;

TEST_CASE("every op gives the same bits for every order of threads and blocks, and again") {
  Floats first;
  for_every_order([&] {
    const auto ops = make_on_device_ops();
    for (int run = 0; run < 2; ++run) {
      const Floats bits = every_op(*ops);
      if (first.empty()) first = bits;
      CHECK(bits == first);
    }
  });
}

// Sums over chunks lie in memory that a longer list of chunks would replace.
TEST_CASE("recorded work keeps its scratch memory when other ops need more") {
  for_every_order([] {
    const auto device = make_cuda_device(0);
    const auto ops = make_cuda_ops(*device);
    const Index R = 40, N = 6, large = 1 << 20;
    Floats dy = random_floats(R * N, 1), sum(static_cast<std::size_t>(N)), expected = sum;
    const Buffer d_dy(*device, R * N * 4), d_sum(*device, N * 4), many(*device, large * 4);
    device->copy_in(d_dy.data(), dy.data(), d_dy.bytes());
    device->zero(d_sum.data(), d_sum.bytes());
    device->zero(many.data(), many.bytes());
    const auto turn = [&] {
      device->replay({7}, [&] {
        ops->bias_backward(Tensor(d_sum.data(), DType::F32, {N}),
                           Tensor(d_dy.data(), DType::F32, {R, N}));
      });
    };
    turn();
    turn();  // recorded
    CHECK(ops->sum_squares(Tensor(many.data(), DType::F32, {large})) == 0);
    turn();
    device->copy_out(sum.data(), d_sum.data(), d_sum.bytes());
    for (int i = 0; i < 3; ++i)
      make_cpu_ops()->bias_backward(tensor(expected, {N}), tensor(dy, {R, N}));
    CHECK(distance(sum, widen(expected)) <= kFp32);
  });
}

// Masks are integers and one product; embeddings are sums in an order that ops.h states.
TEST_CASE("dropout and embedding give the CPU's bits") {
  const auto cpu = make_cpu_ops();
  on_every_machine([&](Ops& gpu) {
    for (const auto& [B, T, C, V] :
         {std::array<Index, 4>{3, 7, 5, 2}, {2, 33, 68, 9}, {2, 130, 12, 300}})
      for (const float probability : {0.0f, 0.3f}) {
        INFO(B << " x " << T << " x " << C << ", dropout " << probability);
        const Index R = B * T;
        const Dropout dropout{probability, 77, (Index{1} << 32) - 1, 3, DropoutSite::Embedding};
        Ids tokens = random_ids(R, V, 1);
        Floats wte = random_floats(V * C, 2), wpe = random_floats(T * C, 3);
        const auto run = [&](Ops& ops) {
          Floats x(static_cast<std::size_t>(R * C)), dx = random_floats(R * C, 4), mask = x;
          Floats dwte = random_floats(V * C, 5), dwpe = random_floats(T * C, 6);
          ops.embedding_forward(tensor(x, {R, C}), tensor(tokens, {R}), tensor(wte, {V, C}),
                                tensor(wpe, {T, C}), T, dropout);
          ops.embedding_backward(tensor(dwte, {V, C}), tensor(dwpe, {T, C}), tensor(dx, {R, C}),
                                 tensor(tokens, {R}), T, dropout);
          ops.residual_backward(tensor(mask, {B, T, C}), tensor(x, {B, T, C}), dropout);
          return std::vector<Floats>{x, dx, dwte, dwpe, mask};
        };
        CHECK(run(gpu) == run(*cpu));
      }
  });
}

// More rows than one tile of the sort, one digit of the tokens and three, and tokens that repeat
// more often than a warp is wide.
TEST_CASE("embedding backward: many rows of few tokens are added in the CPU's order") {
  const auto cpu = make_cpu_ops();
  for (const auto& [B, T, V] : {std::array<Index, 3>{7, 100, 1000},
                                {45, 100, 256},
                                {45, 100, 257},
                                {3, 1025, 70'000},
                                {1, 5, 1}}) {
    INFO(B << " x " << T << " of " << V);
    const Index R = B * T, C = 6;
    Ids tokens = random_ids(R, V, 1);
    for (std::size_t r = 0; r < tokens.size(); r += 3)
      tokens[r] = static_cast<std::int32_t>(V * 421 / 1000);
    const auto run = [&](Ops& ops) {
      Floats dx = random_floats(R * C, 4), dwte = random_floats(V * C, 5);
      ops.embedding_backward(tensor(dwte, {V, C}), {}, tensor(dx, {R, C}), tensor(tokens, {R}), T,
                             {});
      return dwte;
    };
    const Floats expected = run(*cpu);
    on_every_machine([&](Ops& gpu) { CHECK(run(gpu) == expected); });
  }
}
