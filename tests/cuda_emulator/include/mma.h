#pragma once
// The emulator's <mma.h>: warp matrix fragments of 16 x 16 x 16, bf16 or fp16 in, fp32 accumulated.
// Which lane holds which element is scrambled on purpose: CUDA does not say, so no kernel may know.
#include "cuda_bf16.h"
#include "cuda_fp16.h"
#include "cuda_runtime.h"

namespace nvcuda::wmma {

struct row_major;
struct col_major;
struct matrix_a;
struct matrix_b;
struct accumulator;
enum layout_t { mem_row_major, mem_col_major };

template <class Use, int M, int N, int K, class T, class Layout = void>
class fragment;

}  // namespace nvcuda::wmma

namespace emulator {

// Element i of lane `lane`, as a position row * 16 + column of the matrix; 8 per lane.
constexpr int wmma_position(int lane, int i) { return ((lane * 8 + i) * 37 + 11) % 256; }

template <class T, int Elements>
struct FragmentBase {
  static constexpr int num_elements = Elements;  // above 8: held twice, as the hardware does
  T x[Elements];
};

// A matrix in memory; every lane of the warp gives the same.
struct MatrixAddress {
  const void* memory;
  unsigned leading;
  bool columns;  // column-major
};
enum class MatrixElement { Bf16, Fp16, Fp32 };
// Reports a pointer that is not aligned to 32 bytes, a leading dimension that is no multiple of 16
// bytes, lanes that name different matrices, a warp that is not whole.
void wmma_load(void* x, int elements, MatrixElement type, const MatrixAddress& from,
               const Place& place);
void wmma_store(const void* x, int elements, MatrixElement type, const MatrixAddress& to,
                const Place& place);
void wmma_multiply(float* d, const void* a, const void* b, const float* c, MatrixElement type,
                   const Place& place);

template <class T>
constexpr MatrixElement matrix_element() {
  if constexpr (std::is_same_v<T, __nv_bfloat16>)
    return MatrixElement::Bf16;
  else if constexpr (std::is_same_v<T, __half>)
    return MatrixElement::Fp16;
  else
    return MatrixElement::Fp32;
}

}  // namespace emulator

namespace nvcuda::wmma {

template <class Layout>
class fragment<matrix_a, 16, 16, 16, __half, Layout> : public emulator::FragmentBase<__half, 16> {};
template <class Layout>
class fragment<matrix_b, 16, 16, 16, __half, Layout> : public emulator::FragmentBase<__half, 16> {};
template <class Layout>
class fragment<matrix_a, 16, 16, 16, __nv_bfloat16, Layout>
    : public emulator::FragmentBase<__nv_bfloat16, 8> {};
template <class Layout>
class fragment<matrix_b, 16, 16, 16, __nv_bfloat16, Layout>
    : public emulator::FragmentBase<__nv_bfloat16, 8> {};
template <>
class fragment<accumulator, 16, 16, 16, float> : public emulator::FragmentBase<float, 8> {};

template <class Use, class T, class Layout, class V>
void fill_fragment(fragment<Use, 16, 16, 16, T, Layout>& f, const V& value) {
  for (T& x : f.x) x = static_cast<T>(value);
}

template <class Use, class T, class Layout>
void load_matrix_sync(fragment<Use, 16, 16, 16, T, Layout>& f, const T* from, unsigned leading,
                      emulator::Place place = emulator::Place::current()) {
  emulator::wmma_load(f.x, f.num_elements, emulator::matrix_element<T>(),
                      {from, leading, std::is_same_v<Layout, col_major>}, place);
}
inline void load_matrix_sync(fragment<accumulator, 16, 16, 16, float>& f, const float* from,
                             unsigned leading, layout_t layout,
                             emulator::Place place = emulator::Place::current()) {
  emulator::wmma_load(f.x, f.num_elements, emulator::MatrixElement::Fp32,
                      {from, leading, layout == mem_col_major}, place);
}
inline void store_matrix_sync(float* to, const fragment<accumulator, 16, 16, 16, float>& f,
                              unsigned leading, layout_t layout,
                              emulator::Place place = emulator::Place::current()) {
  emulator::wmma_store(f.x, f.num_elements, emulator::MatrixElement::Fp32,
                       {to, leading, layout == mem_col_major}, place);
}
template <class T, class LayoutA, class LayoutB>
void mma_sync(fragment<accumulator, 16, 16, 16, float>& d,
              const fragment<matrix_a, 16, 16, 16, T, LayoutA>& a,
              const fragment<matrix_b, 16, 16, 16, T, LayoutB>& b,
              const fragment<accumulator, 16, 16, 16, float>& c,
              emulator::Place place = emulator::Place::current()) {
  emulator::wmma_multiply(d.x, a.x, b.x, c.x, emulator::matrix_element<T>(), place);
}

}  // namespace nvcuda::wmma
