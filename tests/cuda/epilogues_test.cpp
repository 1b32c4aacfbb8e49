// Products with cuBLASLt's epilogues against the CPU's ops, and against the ops one by one.
#include "epilogues.h"
#include "kernels/references.h"

using namespace chimera;
using namespace chimera::test;

namespace {

// A GPU's epilogue may take the hardware's tanh, whose relative error is 2^-11.
constexpr double kHardwareTanh = 0x1p-10;

template <class T>
void check_all() {
  for (const LinearSizes& sizes : {kAligned, kOdd}) {
    const LinearResults expected = linear_reference<T>(sizes);
    for (const CudaImplementation choice :
         {CudaImplementation::Own, CudaImplementation::Library, CudaImplementation::Autotuned}) {
      INFO("choice " << static_cast<int>(choice) << ", N = " << sizes.N);
      const auto device = make_cuda_device(0);
      const auto ops = make_cuda_ops(
          *device,
          {.autotune_matmul = choice == CudaImplementation::Autotuned, .epilogues = choice});
      for (int turn = 0; turn < 2; ++turn)  // timed, then known
        check_linear(run_linear<T>(*device, *ops, sizes), expected, kStored<T>, kHardwareTanh);
    }
  }
}

}  // namespace

TEST_CASE("epilogues: fused or apart, linear layers give the CPU's numbers to rounding") {
  for_every_order([] {
    check_all<float>();
    check_all<__nv_bfloat16>();
    check_all<__half>();
  });
}

// Products of 48 terms: TF32 has 10 bits of mantissa, so each operand errs by up to 2^-11, about
// 2^-12 on average, and errors add like a random walk: far above fp32's, far below bf16's.
TEST_CASE("matmul: fp32 is fp32, and TF32 only where it is asked for") {
  for_every_order([] {
    const auto device = make_cuda_device(0);
    const Index n = 48;
    const Floats a = random_floats(n * n, 1), b = random_floats(n * n, 2);
    const Doubles expected =
        matmul_reference(widen(a), Transpose::No, widen(b), Transpose::No, n, n, n);
    const auto error = [&](bool tf32) {
      const auto ops = make_cuda_ops(*device, {.tf32 = tf32});
      const Array<float> da(*device, a), db(*device, b), out(*device, a);
      ops->matmul(matrix_of(out, n, n), matrix_of(da, n, n), Transpose::No, matrix_of(db, n, n),
                  Transpose::No, Write::Set);
      return distance(out.read(), expected);
    };
    CHECK(error(false) <= kFp32);
    CHECK(error(true) >= 5e-5);
    CHECK(error(true) <= 1e-3);
  });
}
