// bf16 and fp16: the rounding of the hardware, and the wmma fragments made of them.
#include "device_array.h"

namespace {

using namespace emulator_test;
using Catch::Contains;

// The nearest of the two neighbours, by the definition: ties to the even one.
template <class Decode>
bool nearest(float value, std::uint16_t got, Decode decode) {
  const double error = std::fabs(double(decode(got)) - value);
  for (const int step : {-1, 1}) {
    const auto other = static_cast<std::uint16_t>(got + step);
    if ((other ^ got) & 0x8000 || !std::isfinite(decode(other))) continue;
    const double distance = std::fabs(double(decode(other)) - value);
    if (distance < error || (distance == error && (got & 1) != 0)) return false;
  }
  return true;
}

TEST_CASE("rounding to bf16 and fp16 is to the nearest, ties to even") {
  std::uint64_t state = 1;
  for (int i = 0; i < 2000000; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    auto bits = static_cast<std::uint32_t>(state >> 32);
    if (i % 4 == 1) bits = (bits & 0xffff8000u);                // many ties of bf16
    if (i % 4 == 2) bits = (bits & 0x8fffffffu) | 0x30000000u;  // the range of fp16
    if (i % 4 == 3) bits = (bits & 0x8ffff000u) | 0x30000000u;  // and its ties
    const float value = std::bit_cast<float>(bits);
    if (!std::isfinite(value)) continue;
    const auto b = emulator::bf16_from_float(value), h = emulator::fp16_from_float(value);
    if (std::fabs(value) < 3.3895e38f) REQUIRE(nearest(value, b, emulator::float_from_bf16));
    if (std::fabs(value) < 65520.0f) REQUIRE(nearest(value, h, emulator::float_from_fp16));
    if (std::fabs(value) >= 65520.0f) REQUIRE((h & 0x7fff) == 0x7c00);
  }
}

TEST_CASE("every bf16 and fp16 goes to float and back unchanged; all NaN become 0x7fff") {
  for (unsigned i = 0; i < 65536; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    const float b = emulator::float_from_bf16(bits), h = emulator::float_from_fp16(bits);
    REQUIRE(emulator::bf16_from_float(b) == (std::isnan(b) ? 0x7fff : bits));
    REQUIRE(emulator::fp16_from_float(h) == (std::isnan(h) ? 0x7fff : bits));
  }
  CHECK(float(__half(65519.0f)) == 65504.0f);
  CHECK(std::isinf(float(__half(65520.0f))));
  CHECK(float(__half(0x1p-25f)) == 0.0f);        // a tie, and 0 is even
  CHECK(float(__half(0x1.8p-24f)) == 0x1p-23f);  // a tie between 1 and 2 units
  CHECK(float(__nv_bfloat16(3.4e38f)) == std::numeric_limits<float>::infinity());
}

TEST_CASE("double is rounded once") {
  // 1 + 2^-11 is a tie of fp16 and goes to 1; a little more goes up, though float rounds it to the
  // tie.
  CHECK(float(__half(1.0 + 0x1p-11)) == 1.0f);
  CHECK(float(__half(1.0 + 0x1p-11 + 0x1p-40)) == 1.0f + 0x1p-10f);
  CHECK(float(__nv_bfloat16(1.0 + 0x1p-8 + 0x1p-40)) == 1.0f + 0x1p-7f);
  CHECK(float(__nv_bfloat16(-1.0 - 0x1p-8 - 0x1p-40)) == -1.0f - 0x1p-7f);
  CHECK(float(__hfma(__half(3.0f), __half(5.0f), __half(0.5f))) == 15.5f);
}

// out = a b + c for one 16 x 16 tile in shared memory, doubled through the elements.
template <class T, class LayoutA, class LayoutB>
__global__ void tile_product(float* out, const T* a, const T* b, bool transposed) {
  using namespace nvcuda::wmma;
  __shared__ __align__(32) T tile_a[256];
  __shared__ __align__(32) T tile_b[256];
  for (unsigned i = threadIdx.x; i < 256; i += 32) {
    tile_a[i] = a[i];
    tile_b[i] = b[i];
  }
  __syncwarp();
  fragment<matrix_a, 16, 16, 16, T, LayoutA> fa;
  fragment<matrix_b, 16, 16, 16, T, LayoutB> fb;
  fragment<accumulator, 16, 16, 16, float> sum;
  fill_fragment(sum, 1.0f);
  load_matrix_sync(fa, tile_a, 16);
  load_matrix_sync(fb, tile_b, 16);
  mma_sync(sum, fa, fb, sum);
  for (int i = 0; i < sum.num_elements; ++i) sum.x[i] *= 2.0f;
  store_matrix_sync(out, sum, 16, transposed ? mem_col_major : mem_row_major);
}

template <class T, class LayoutA, class LayoutB>
void check_tile(bool a_columns, bool b_columns, bool out_columns) {
  std::vector<T> a(256), b(256);
  for (int i = 0; i < 256; ++i) {
    a[static_cast<std::size_t>(i)] = static_cast<float>(i * 7 % 31 - 15) / 8;
    b[static_cast<std::size_t>(i)] = static_cast<float>(i * 5 % 23 - 11) / 8;
  }
  const auto results = for_seeds([&] {
    const DeviceArray<T> da(a), db(b);
    const DeviceArray<float> out(256);
    chimera::launch(tile_product<T, LayoutA, LayoutB>, 1, 32, 0, nullptr, out.get(), da.get(),
                    db.get(), out_columns);
    return out.values();
  });
  CHECK(all_the_same(results));
  const auto at = [](bool columns, int row, int column) {
    return static_cast<std::size_t>(columns ? column * 16 + row : row * 16 + column);
  };
  for (int i = 0; i < 16; ++i)
    for (int j = 0; j < 16; ++j) {
      double sum = 1;
      for (int k = 0; k < 16; ++k)
        sum += double(float(a[at(a_columns, i, k)])) * float(b[at(b_columns, k, j)]);
      // Multiples of 1/64 below 2^10: exact in fp32.
      REQUIRE(results[0][at(out_columns, i, j)] == static_cast<float>(2 * sum));
    }
}

TEST_CASE("wmma multiplies tiles in both layouts and both types") {
  using nvcuda::wmma::row_major, nvcuda::wmma::col_major;
  check_tile<__nv_bfloat16, row_major, col_major>(false, true, false);
  check_tile<__nv_bfloat16, col_major, row_major>(true, false, true);
  check_tile<__half, row_major, row_major>(false, false, true);
  check_tile<__half, col_major, col_major>(true, true, false);
}

__global__ void misaligned_load(const __half* a, int offset, unsigned leading) {
  nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, 16, 16, 16, __half, nvcuda::wmma::row_major> f;
  nvcuda::wmma::load_matrix_sync(f, a + offset, leading);
}
__global__ void half_a_warp(const __half* a) {
  nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, 16, 16, 16, __half, nvcuda::wmma::row_major> f;
  if (threadIdx.x < 16) nvcuda::wmma::load_matrix_sync(f, a, 16);
}
__global__ void lanes_apart(const __half* a) {
  nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, 16, 16, 16, __half, nvcuda::wmma::row_major> f;
  nvcuda::wmma::load_matrix_sync(f, a + 16 * (threadIdx.x % 2), 16);
}

TEST_CASE("wmma's rules are checked") {
  const auto fails = [](const std::string& words, auto* kernel, auto... arguments) {
    new_machine(0);
    const DeviceArray<__half> a(1024);
    chimera::launch(kernel, 1, 32, 0, nullptr, a.get(), arguments...);
    CHECK(cudaDeviceSynchronize() == cudaErrorLaunchFailure);
    CHECK_THAT(emulator::last_report(), Contains(words));
  };
  fails("not a multiple of 32 bytes", misaligned_load, 8, 16u);
  fails("leading dimension is no multiple of 16 bytes", misaligned_load, 0, 20u);
  fails("by a warp that is not whole", half_a_warp);
  fails("name different matrices", lanes_apart);
}

}  // namespace
