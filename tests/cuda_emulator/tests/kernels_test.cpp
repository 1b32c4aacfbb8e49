// Kernels that are right: they compute what they should, to the same bit whatever the order.
#include "device_array.h"

namespace {

using namespace emulator_test;

__device__ unsigned global_thread() { return blockIdx.x * blockDim.x + threadIdx.x; }

// A __shared__ variable of a template, two barriers, a shuffle.
template <class T>
__device__ T block_sum(T value) {
  __shared__ T partial[32];
  for (int delta = 16; delta > 0; delta /= 2) value += __shfl_xor_sync(0xffffffffu, value, delta);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  const bool inside = threadIdx.x % 32 < blockDim.x / 32;
  value = inside ? partial[threadIdx.x % 32] : T(0);
  for (int delta = 16; delta > 0; delta /= 2) value += __shfl_xor_sync(0xffffffffu, value, delta);
  __syncthreads();
  return value;
}

template <class T>
__global__ void __launch_bounds__(256) sum_rows(float* sums, const T* x, int C) {
  float sum = 0;
  for (unsigned i = threadIdx.x; i < static_cast<unsigned>(C); i += blockDim.x)
    sum += float(x[blockIdx.x * static_cast<unsigned>(C) + i]);
  sum = block_sum(sum);
  sum = block_sum(threadIdx.x == 0 ? sum : 0.0f);  // the shared variable is used twice
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

TEST_CASE("a block reduction is the same for every order of threads and blocks") {
  const int R = 5, C = 1000;
  std::vector<__nv_bfloat16> x(R * C);
  std::vector<float> expected(R, 0.0f);
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<int>(i % 17) - 8;
    expected[i / C] += static_cast<float>(static_cast<int>(i % 17) - 8);
  }
  const auto results = for_seeds([&] {
    const DeviceArray<__nv_bfloat16> in(x);
    const DeviceArray<float> sums(R);
    chimera::launch(sum_rows<__nv_bfloat16>, R, 256, 0, nullptr, sums.get(), in.get(), C);
    return sums.values();
  });
  CHECK(results[0] == expected);
  CHECK(all_the_same(results));
}

__global__ void reverse(int* x) {
  CHIMERA_DYNAMIC_SHARED(int, tile);
  tile[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  x[threadIdx.x] = tile[blockDim.x - 1 - threadIdx.x];
}

TEST_CASE("dynamic shared memory belongs to the block") {
  std::vector<int> x(200), expected(200);
  for (int i = 0; i < 200; ++i) {
    x[static_cast<std::size_t>(i)] = i;
    expected[static_cast<std::size_t>(i)] = 199 - i;
  }
  for (const auto& result : for_seeds([&] {
         const DeviceArray<int> in(x);
         chimera::launch(reverse, 1, 200, 200 * sizeof(int), nullptr, in.get());
         return in.values();
       }))
    CHECK(result == expected);
}

__global__ void positions(int* out) {
  const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  const unsigned i = block * blockDim.x * blockDim.y * blockDim.z + thread;
  out[i] += static_cast<int>(i);
}

TEST_CASE("every thread of every block runs once, at its own position") {
  const dim3 grid(3, 4, 2), block(5, 2, 3);
  for (const auto& result : for_seeds([&] {
         const DeviceArray<int> out(720);
         ok(cudaMemset(out.get(), 0, 720 * sizeof(int)));
         chimera::launch(positions, grid, block, 0, nullptr, out.get());
         return out.values();
       }))
    for (int i = 0; i < 720; ++i) REQUIRE(result[static_cast<std::size_t>(i)] == i);
}

__global__ void warp_functions(unsigned* out) {
  const unsigned lane = threadIdx.x, all = 0xffffffffu;
  unsigned* const mine = out + lane * 8;
  mine[0] = __shfl_sync(all, lane, 3, 8);      // lane 3 of each group of 8
  mine[1] = __shfl_down_sync(all, lane, 2);    // the last two keep their own
  mine[2] = __shfl_up_sync(all, lane, 1, 16);  // within halves
  mine[3] = __ballot_sync(all, lane % 3 == 0);
  mine[4] = static_cast<unsigned>(__any_sync(all, lane == 7)) +
            2u * static_cast<unsigned>(__all_sync(all, lane < 32));
  mine[5] = __match_any_sync(all, lane / 4);
  // Two halves of the warp on ways of their own.
  if (lane < 16)
    mine[6] = __shfl_xor_sync(0x0000ffffu, lane, 1);
  else
    mine[6] = __shfl_xor_sync(0xffff0000u, lane, 2);
  mine[7] = static_cast<unsigned>(__syncthreads_count(lane < 5));
}

TEST_CASE("warp functions do what CUDA's do") {
  for (const auto& out : for_seeds([] {
         const DeviceArray<unsigned> memory(32 * 8);
         chimera::launch(warp_functions, 1, 32, 0, nullptr, memory.get());
         return memory.values();
       }))
    for (unsigned lane = 0; lane < 32; ++lane) {
      const unsigned* mine = out.data() + lane * 8;
      REQUIRE(mine[0] == lane / 8 * 8 + 3);
      REQUIRE(mine[1] == (lane < 30 ? lane + 2 : lane));
      REQUIRE(mine[2] == (lane % 16 == 0 ? lane : lane - 1));
      REQUIRE(mine[3] == 0x49249249u);
      REQUIRE(mine[4] == 3u);
      REQUIRE(mine[5] == 0xfu << lane / 4 * 4);
      REQUIRE(mine[6] == (lane < 16 ? lane ^ 1u : lane ^ 2u));
      REQUIRE(mine[7] == 5u);
    }
}

__global__ void some_return_early(int* out, int n) {
  const auto i = static_cast<int>(threadIdx.x);
  if (i >= n) return;
  __syncthreads();
  __syncwarp();
  if (i == 0) *out = n;
}

TEST_CASE("threads that have returned are not waited for") {
  for (const auto& result : for_seeds([] {
         const DeviceArray<int> out(1);
         chimera::launch(some_return_early, 1, 100, 0, nullptr, out.get(), 37);
         return out.values();
       }))
    CHECK(result[0] == 37);
}

__global__ void count_up(int* counter, unsigned long long* sum) {
  atomicAdd(counter, 1);
  atomicAdd(sum, static_cast<unsigned long long>(global_thread()));
}

TEST_CASE("integer atomics add up") {
  for (const auto& result : for_seeds([] {
         const DeviceArray<int> counter(1);
         const DeviceArray<unsigned long long> sum(1);
         ok(cudaMemset(counter.get(), 0, 4));
         ok(cudaMemset(sum.get(), 0, 8));
         chimera::launch(count_up, 7, 96, 0, nullptr, counter.get(), sum.get());
         return std::vector<long>{counter.values()[0], static_cast<long>(sum.values()[0])};
       }))
    CHECK(result == std::vector<long>{672, 672 * 671 / 2});
}

__global__ void deep(float* out) {
  float local[2000];  // 8,000 bytes of each thread's stack
  for (int i = 0; i < 2000; ++i) local[i] = static_cast<float>(i + static_cast<int>(threadIdx.x));
  __syncthreads();
  float sum = 0;
  for (int i = 0; i < 2000; ++i) sum += local[i];
  out[threadIdx.x] = sum;
}

TEST_CASE("local arrays survive a barrier, 1,024 threads of them") {
  new_machine(2);
  const DeviceArray<float> out(1024);
  chimera::launch(deep, 1, 1024, 0, nullptr, out.get());
  const auto sums = out.values();
  // Sums of integers below 2^24 are exact.
  for (std::size_t i = 0; i < 1024; ++i)
    REQUIRE(sums[i] == static_cast<float>(1999 * 1000 + 2000 * static_cast<int>(i)));
}

}  // namespace
