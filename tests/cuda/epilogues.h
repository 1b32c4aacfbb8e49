#pragma once
// The products with a GELU or a bias gradient beside them, on the device and by the CPU in fp32.
#include "storage.h"

namespace chimera::test {

struct LinearSizes {
  Index R, K, N;
};

// Everything that the three ops write, as floats.
struct LinearResults {
  Floats gelu, pre, dpre, dw, dbias;
  bool operator==(const LinearResults&) const = default;
};

template <class T>
Tensor matrix_of(const Array<T>& a, Index rows, Index columns) {
  return Tensor(a.get(), kStorage<T>, {rows, columns});
}
template <class T>
Tensor vector_of(const Array<T>& a) {
  return Tensor(a.get(), kStorage<T>, {static_cast<Index>(a.size)});
}

template <class T>
struct LinearInputs {
  Floats x, w, bias, dy, w_out, pre, dw, dbias;
  LinearInputs(const LinearSizes& s)
      : x(storable<T>(s.R * s.K, 1)),
        w(storable<T>(s.K * s.N, 2)),
        bias(storable<T>(s.N, 3)),
        dy(storable<T>(s.R * s.N, 4)),
        w_out(storable<T>(s.N * s.K, 5)),
        pre(storable<T>(s.R * s.N, 6)),
        dw(random_floats(s.K * s.N, 7)),
        dbias(random_floats(s.N, 8)) {}
};

template <class T>
LinearResults run_linear(CudaDevice& device, Ops& ops, const LinearSizes& s) {
  const LinearInputs<T> in(s);
  const auto [R, K, N] = s;
  const Array<T> x(device, in.x), w(device, in.w), bias(device, in.bias), dy(device, in.dy),
      w_out(device, in.w_out), pre_in(device, in.pre), gelu(device, in.dy), pre(device, in.dy),
      dpre(device, in.dy);
  const Array<float> dw(device, in.dw), dbias(device, in.dbias);
  ops.linear_gelu_forward(matrix_of(gelu, R, N), matrix_of(pre, R, N), matrix_of(x, R, K),
                          matrix_of(w, K, N), vector_of(bias));
  ops.linear_gelu_backward(matrix_of(dpre, R, N), matrix_of(x, R, K), matrix_of(w_out, N, K),
                           matrix_of(pre_in, R, N));
  ops.linear_backward_weight(matrix_of(dw, K, N), vector_of(dbias), matrix_of(x, R, K),
                             matrix_of(dy, R, N));
  return {gelu.read(), pre.read(), dpre.read(), dw.read(), dbias.read()};
}

// The same by the CPU's ops in fp32 over the same numbers.
template <class T>
LinearResults linear_reference(const LinearSizes& s) {
  LinearInputs<T> in(s);
  const auto [R, K, N] = s;
  const auto size = static_cast<std::size_t>(R * N);
  LinearResults r{Floats(size), Floats(size), Floats(size), in.dw, in.dbias};
  const auto ops = make_cpu_ops();
  const Tensor x = tensor(in.x, {R, K});
  ops->linear_gelu_forward(tensor(r.gelu, {R, N}), tensor(r.pre, {R, N}), x, tensor(in.w, {K, N}),
                           tensor(in.bias, {N}));
  ops->linear_gelu_backward(tensor(r.dpre, {R, N}), x, tensor(in.w_out, {N, K}),
                            tensor(in.pre, {R, N}));
  ops->linear_backward_weight(tensor(r.dw, {K, N}), tensor(r.dbias, {N}), x, tensor(in.dy, {R, N}));
  return r;
}

// `stored`: how far, in Frobenius norm, what is stored in T may be; sums are fp32's.
inline void check_linear(const LinearResults& got, const LinearResults& expected, double stored,
                         double gelu) {
  CHECK(distance(got.pre, widen(expected.pre)) <= stored);
  CHECK(distance(got.gelu, widen(expected.gelu)) <= stored + gelu);
  CHECK(distance(got.dpre, widen(expected.dpre)) <= stored + gelu);
  CHECK(distance(got.dw, widen(expected.dw)) <= kFp32);
  CHECK(distance(got.dbias, widen(expected.dbias)) <= kFp32);
}

// Half a unit in the last place of T, twice where a stored number is read again; fp32's sums.
template <class T>
constexpr double kStored = std::is_same_v<T, float> ? kFp32 : kRounding<T>;

// Leading dimensions of a multiple of 8 numbers, and odd ones.
inline constexpr LinearSizes kAligned{24, 40, 64}, kOdd{13, 17, 27};

}  // namespace chimera::test
