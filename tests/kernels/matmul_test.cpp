#include "references.h"

using namespace chimera;
using namespace chimera::test;

namespace {

struct Shape {
  Index M, N, K;
};

void check_product(Ops& ops, Shape s, Transpose ta, Transpose tb, Write mode, bool with_bias) {
  const bool a_turned = ta == Transpose::Yes, b_turned = tb == Transpose::Yes;
  INFO(s.M << " x " << s.N << " x " << s.K << (a_turned ? " a'" : " a") << (b_turned ? " b'" : " b")
           << (mode == Write::Add ? " added" : "") << (with_bias ? " with bias" : ""));
  Floats a = random_floats(s.M * s.K, 1), b = random_floats(s.K * s.N, 2);
  Floats out = random_floats(s.M * s.N, 3), bias = random_floats(s.N, 4);
  Doubles expected = matmul_reference(widen(a), ta, widen(b), tb, s.M, s.N, s.K);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (mode == Write::Add) expected[i] += static_cast<double>(out[i]);
    if (with_bias) expected[i] += static_cast<double>(bias[i % static_cast<std::size_t>(s.N)]);
  }
  ops.matmul(tensor(out, {s.M, s.N}), a_turned ? tensor(a, {s.K, s.M}) : tensor(a, {s.M, s.K}), ta,
             b_turned ? tensor(b, {s.N, s.K}) : tensor(b, {s.K, s.N}), tb, mode,
             with_bias ? tensor(bias, {s.N}) : Tensor());
  CHECK(distance(out, expected) <= kFp32);
}

}  // namespace

// Larger products are computed in pieces: the next case.
TEST_CASE("matmul: every transposition, mode and odd size matches float64") {
  on_every_machine([](Ops& ops) {
    for (const Shape s : {Shape{1, 1, 1}, Shape{1, 65, 33}, Shape{17, 1, 129}, Shape{65, 33, 1},
                          Shape{31, 67, 129}})
      for (const Transpose ta : {Transpose::No, Transpose::Yes})
        for (const Transpose tb : {Transpose::No, Transpose::Yes})
          for (const Write mode : {Write::Set, Write::Add})
            for (const bool bias : {false, true}) check_product(ops, s, ta, tb, mode, bias);
  });
}

TEST_CASE("matmul: products computed in pieces match float64") {
  const auto ops = test_ops();
  // Ragged pieces of N and K, of K alone, of M and N.
  check_product(*ops, {65, 2051, 1031}, Transpose::No, Transpose::No, Write::Set, true);
  check_product(*ops, {513, 257, 4111}, Transpose::No, Transpose::No, Write::Add, true);
  check_product(*ops, {2053, 1031, 33}, Transpose::Yes, Transpose::No, Write::Add, false);
}

TEST_CASE("matmul: sizes of 0 write what an empty sum is") {
  const auto ops = test_ops();
  Floats nothing, out{1, 2, 3, 4, 5, 6}, bias{10, 20, 30};
  const Tensor a(out.data(), DType::F32, {2, 0}), b(out.data(), DType::F32, {0, 3});
  ops->matmul(tensor(out, {2, 3}), a, Transpose::No, b, Transpose::No, Write::Add,
              tensor(bias, {3}));
  CHECK(out == Floats{11, 22, 33, 14, 25, 36});
  ops->matmul(tensor(out, {2, 3}), a, Transpose::No, b, Transpose::No, Write::Set);
  CHECK(out == Floats(6, 0.0f));
  const Tensor none(out.data(), DType::F32, {0, 3});
  ops->matmul(none, Tensor(out.data(), DType::F32, {0, 2}), Transpose::No, tensor(out, {2, 3}),
              Transpose::No, Write::Set);
  CHECK(out == Floats(6, 0.0f));
}

TEST_CASE("bias gradient: column sums of odd sizes") {
  on_every_machine([](Ops& ops) {
    for (const Shape s :
         {Shape{1, 1, 0}, Shape{7, 65, 0}, Shape{33, 1031, 0}, Shape{300, 129, 0}}) {
      Floats dy = random_floats(s.M * s.N, 1), db = random_floats(s.N, 2);
      Doubles expected = widen(db);
      for (Index i = 0; i < s.M * s.N; ++i)
        expected[static_cast<std::size_t>(i % s.N)] +=
            static_cast<double>(dy[static_cast<std::size_t>(i)]);
      ops.bias_backward(tensor(db, {s.N}), tensor(dy, {s.M, s.N}));
      CHECK(distance(db, expected) <= kFp32);
    }
  });
}
