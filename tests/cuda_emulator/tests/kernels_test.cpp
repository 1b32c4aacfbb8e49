// Kernels that are right: they compute what they should, whatever the order of threads and blocks.
#include "cuda/port.h"
#include "support/support.h"

namespace {

template <class T>
__global__ void sum_rows(float* sums, const T* x, int C) {
  __shared__ float partial[32];
  float sum = 0;
  for (int i = static_cast<int>(threadIdx.x); i < C; i += static_cast<int>(blockDim.x))
    sum += float(x[blockIdx.x * static_cast<unsigned>(C) + static_cast<unsigned>(i)]);
  for (int delta = 16; delta > 0; delta /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, delta);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    float total = 0;
    for (unsigned w = 0; w < blockDim.x / 32; ++w) total += partial[w];
    sums[blockIdx.x] = total;
  }
}

TEST_CASE("a block reduction adds every element once") {
  const int R = 5, C = 1000;
  std::vector<__nv_bfloat16> x(R * C);
  for (int i = 0; i < R * C; ++i) x[static_cast<std::size_t>(i)] = static_cast<float>(i % 17 - 8);
  std::vector<float> sums(R);
  chimera::launch(sum_rows<__nv_bfloat16>, R, 256, 0, nullptr, sums.data(), x.data(), C);
  for (int r = 0; r < R; ++r) {
    float expected = 0;
    for (int i = 0; i < C; ++i) expected += x[static_cast<std::size_t>(r * C + i)];
    CHECK(sums[static_cast<std::size_t>(r)] == expected);
  }
}

}  // namespace
