// Which way a fused op goes, counted by the kernels that it launches beside its product.
#include "../epilogues.h"
#include "emulator/control.h"

using namespace chimera;
using namespace chimera::test;

namespace {

struct Launched {
  std::int64_t forward, backward, weight;
};

template <class T>
Launched launches(CudaDevice& device, Ops& ops, const LinearSizes& s) {
  const LinearInputs<T> in(s);
  const auto [R, K, N] = s;
  const Array<T> x(device, in.x), w(device, in.w), bias(device, in.bias), dy(device, in.dy),
      w_out(device, in.w_out), pre(device, in.pre), out(device, in.dy);
  const Array<float> dw(device, in.dw), dbias(device, in.dbias);
  const auto count = [&](const auto& body) {
    const std::int64_t before = emulator::statistics().kernels;
    body();
    device.synchronize();
    return emulator::statistics().kernels - before;
  };
  return {count([&] {
            ops.linear_gelu_forward(matrix_of(out, R, N), matrix_of(pre, R, N), matrix_of(x, R, K),
                                    matrix_of(w, K, N), vector_of(bias));
          }),
          count([&] {
            ops.linear_gelu_backward(matrix_of(out, R, N), matrix_of(x, R, K),
                                     matrix_of(w_out, N, K), matrix_of(pre, R, N));
          }),
          count([&] {
            ops.linear_backward_weight(matrix_of(dw, K, N), vector_of(dbias), matrix_of(x, R, K),
                                       matrix_of(dy, R, N));
          })};
}

}  // namespace

TEST_CASE("epilogues: one product where the library can, its own kernels where it cannot") {
  const auto device = make_cuda_device(0);
  const auto fused = make_cuda_ops(*device, {.epilogues = CudaImplementation::Library}),
             apart = make_cuda_ops(*device);
  const Launched aligned = launches<float>(*device, *fused, kAligned),
                 odd = launches<float>(*device, *fused, kOdd),
                 own = launches<float>(*device, *apart, kAligned);
  CHECK(own.forward == 1);  // GELU
  CHECK(own.backward == 1);
  CHECK(aligned.forward == 0);
  CHECK(aligned.backward == 0);
  CHECK(odd.forward == 1);  // rows of 27 numbers: no leading dimension for the epilogue's matrix
  CHECK(odd.backward == 1);
  CHECK(aligned.weight <= own.weight);  // column sums of one row instead of R
}

// The emulator's tanh is the host's, so nothing but the order of sums differs.
TEST_CASE("epilogues: GELU is the CPU's tanh approximation") {
  const auto device = make_cuda_device(0);
  const auto fused = make_cuda_ops(*device, {.epilogues = CudaImplementation::Library});
  check_linear(run_linear<float>(*device, *fused, kAligned), linear_reference<float>(kAligned),
               kFp32, 0);
}

TEST_CASE("epilogues: a library that has none changes no bit") {
  const emulator::Options before = emulator::options();
  emulator::Options options = before;
  options.epilogues = false;
  emulator::reset(options);
  {
    const auto device = make_cuda_device(0);
    const auto own = make_cuda_ops(*device);
    const LinearResults expected = run_linear<float>(*device, *own, kAligned);
    for (const CudaImplementation choice :
         {CudaImplementation::Library, CudaImplementation::Autotuned}) {
      const auto ops = make_cuda_ops(*device, {.epilogues = choice});
      CHECK(run_linear<float>(*device, *ops, kAligned) == expected);
    }
  }
  CHECK(emulator::report_count() == 0);
  emulator::reset(before);
}

TEST_CASE("epilogues: rows of odd length change no bit") {
  const auto device = make_cuda_device(0);
  const auto own = make_cuda_ops(*device),
             fused = make_cuda_ops(*device, {.epilogues = CudaImplementation::Library});
  LinearResults got = run_linear<float>(*device, *fused, kOdd),
                expected = run_linear<float>(*device, *own, kOdd);
  got.dbias = expected.dbias;  // fused after all: it asks for no such matrix
  CHECK(got == expected);
}

// The three products of a head whose vocabulary is odd: logits, gradients of rows, of weights.
TEST_CASE("padded matmul: products on padded copies are those of the matrices as they are") {
  const auto device = make_cuda_device(0);
  using T = __nv_bfloat16;
  constexpr Index R = 21, C = 16, V = 97;
  const auto rows = storable<T>(R * C, 1), weight = storable<T>(V * C, 2),
             dlogits = storable<T>(R * V, 3);
  const Floats before = random_floats(V * C, 4);
  const auto run = [&](CudaImplementation choice, std::int64_t& copies) {
    const auto ops = make_cuda_ops(*device, {.epilogues = choice});
    const Array<T> x(*device, rows), w(*device, weight), d(*device, dlogits),
        logits(*device, dlogits), dx(*device, rows);
    const Array<float> dw(*device, before);
    const std::int64_t first = emulator::statistics().kernels;
    ops->matmul(matrix_of(logits, R, V), matrix_of(x, R, C), Transpose::No, matrix_of(w, V, C),
                Transpose::Yes, Write::Set);
    ops->matmul(matrix_of(dx, R, C), matrix_of(d, R, V), Transpose::No, matrix_of(w, V, C),
                Transpose::No, Write::Set);
    ops->matmul(matrix_of(dw, V, C), matrix_of(d, R, V), Transpose::Yes, matrix_of(x, R, C),
                Transpose::No, Write::Add);
    device->synchronize();
    copies = emulator::statistics().kernels - first;
    Floats all = logits.read();
    for (const Floats& more : {dx.read(), dw.read()})
      all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  std::int64_t own_copies = -1, copies = -1, timed = -1;
  const Floats own = run(CudaImplementation::Own, own_copies);
  CHECK(run(CudaImplementation::Library, copies) == own);
  CHECK(own_copies == 0);
  CHECK(copies == 3);  // of logits, and twice of their gradients
  CHECK(run(CudaImplementation::Autotuned, timed) == own);
  CHECK(timed > 3);
}
