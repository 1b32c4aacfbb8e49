// Kernels that are wrong, each in one way: the emulator must say so, or give other bits for another
// order.
#include "device_array.h"

namespace {

using namespace emulator_test;
using Catch::Contains;

// The error that a launch brings, and the report behind it.
void check_refused(cudaError_t status, cudaError_t expected, const std::string& words) {
  CHECK(status == expected);
  CHECK_THAT(emulator::last_report(), Contains(words));
}

// ---- Races: no order is right for all threads.

__global__ void rotate(int* x, bool with_barriers) {
  __shared__ int tile[64];
  tile[threadIdx.x] = x[threadIdx.x];
  if (with_barriers) __syncthreads();
  x[threadIdx.x] = tile[(threadIdx.x + 1) % 64];
}

std::vector<std::vector<int>> rotations(bool with_barriers) {
  std::vector<int> x(64);
  for (int i = 0; i < 64; ++i) x[static_cast<std::size_t>(i)] = i;
  return for_seeds([&] {
    const DeviceArray<int> memory(x);
    chimera::launch(rotate, 1, 64, 0, nullptr, memory.get(), with_barriers);
    return memory.values();
  });
}

TEST_CASE("a missing __syncthreads() changes results between orders", "[races]") {
  CHECK(all_the_same(rotations(true)));
  CHECK_FALSE(all_the_same(rotations(false)));
}

__global__ void warp_transpose(int* x, bool with_barriers) {
  __shared__ int tile[32];
  for (int round = 0; round < 2; ++round) {
    tile[threadIdx.x] = x[threadIdx.x] + round;
    if (with_barriers) __syncwarp();
    const int other = tile[31 - threadIdx.x];
    if (with_barriers) __syncwarp();
    x[threadIdx.x] = other;
  }
}

TEST_CASE("a warp is not in step by itself: a missing __syncwarp() changes results", "[races]") {
  const auto run = [](bool with_barriers) {
    return for_seeds([&] {
      const DeviceArray<int> memory(std::vector<int>(32, 5));
      chimera::launch(warp_transpose, 1, 32, 0, nullptr, memory.get(), with_barriers);
      return memory.values();
    });
  };
  CHECK(all_the_same(run(true)));
  CHECK_FALSE(all_the_same(run(false)));
}

// The tile of a product is filled by the lanes; wmma itself does not wait for what they wrote.
__global__ void load_too_early(float* out, bool with_barrier) {
  using namespace nvcuda::wmma;
  __shared__ __align__(32) float tile[256];
  for (unsigned i = 0; i < 8; ++i) tile[threadIdx.x * 8 + i] = static_cast<float>(threadIdx.x);
  if (with_barrier) __syncwarp();
  fragment<accumulator, 16, 16, 16, float> f;
  load_matrix_sync(f, tile, 16, mem_row_major);
  store_matrix_sync(out, f, 16, mem_row_major);
}

TEST_CASE("wmma that is not preceded by __syncwarp() changes results", "[races]") {
  const auto run = [](bool with_barrier) {
    return for_seeds([&] {
      const DeviceArray<float> out(256);
      chimera::launch(load_too_early, 1, 32, 0, nullptr, out.get(), with_barrier);
      return out.values();
    });
  };
  CHECK(all_the_same(run(true)));
  CHECK_FALSE(all_the_same(run(false)));
}

__global__ void chain_blocks(int* x) {
  if (blockIdx.x > 0) x[blockIdx.x] = x[blockIdx.x - 1] + 1;
}

TEST_CASE("blocks that rely on other blocks give other results in other orders", "[races]") {
  CHECK_FALSE(all_the_same(for_seeds([] {
    const DeviceArray<int> x(std::vector<int>(16, 0));
    chimera::launch(chain_blocks, 16, 1, 0, nullptr, x.get());
    return x.values();
  })));
}

#ifdef CHIMERA_EMULATOR_RACES
TEST_CASE("the thread sanitizer names each race of a kernel, in any order of its threads") {
  const auto found = [](const std::function<void()>& body) {
    std::string all;
    for (std::uint64_t seed = 0; seed < 3; ++seed) {
      const std::string words = death_of(body, seed).words;
      if (words.find("data race") == std::string::npos)
        return "nothing with seed " + std::to_string(seed);
      all += words;
    }
    return all;
  };
  const std::vector<int> x(64, 1);
  CHECK_THAT(found([&] {
               const DeviceArray<int> memory(x);
               chimera::launch(rotate, 1, 64, 0, nullptr, memory.get(), false);
               ok(cudaDeviceSynchronize());
             }),
             Contains("in rotate"));
  CHECK_THAT(found([&] {
               const DeviceArray<int> memory(x);
               chimera::launch(warp_transpose, 1, 32, 0, nullptr, memory.get(), false);
               ok(cudaDeviceSynchronize());
             }),
             Contains("in warp_transpose"));
  CHECK_THAT(found([&] {
               const DeviceArray<int> memory(x);
               chimera::launch(chain_blocks, 16, 1, 0, nullptr, memory.get());
               ok(cudaDeviceSynchronize());
             }),
             Contains("in chain_blocks"));
}
#endif

// ---- Memory that nobody has written

// Both blocks read what only the other writes, or nobody.
template <class T>
__global__ void read_unwritten(T* out) {
  __shared__ T fixed[8];
  CHIMERA_DYNAMIC_SHARED(T, dynamic);
  const unsigned mine = blockIdx.x, other = 1 - blockIdx.x;
  fixed[mine] = dynamic[mine] = T(1.0f);
  out[4 * mine] = fixed[other];
  out[4 * mine + 1] = fixed[2];
  out[4 * mine + 2] = dynamic[other];
  out[4 * mine + 3] = dynamic[2];
}

template <class T>
void check_unwritten() {
  for (const auto& result : for_seeds([] {
         const DeviceArray<T> out(8);
         chimera::launch(read_unwritten<T>, 2, 1, 64, nullptr, out.get());
         return out.values();
       }))
    for (const T value : result) REQUIRE(std::isnan(float(value)));
}

TEST_CASE("shared memory that was not written is NaN in every block") {
  check_unwritten<float>();
  check_unwritten<__half>();
  check_unwritten<__nv_bfloat16>();
}

TEST_CASE("device memory that was not written is NaN in every storage type") {
  new_machine(0);
  for (const float value : DeviceArray<float>(100).values()) REQUIRE(std::isnan(value));
  for (const __half value : DeviceArray<__half>(100).values()) REQUIRE(std::isnan(float(value)));
  for (const __nv_bfloat16 value : DeviceArray<__nv_bfloat16>(100).values())
    REQUIRE(std::isnan(float(value)));
}

// ---- Barriers and warps

__global__ void divergent_barrier() {
  if (threadIdx.x < 16)
    __syncthreads();
  else
    __syncthreads();
}
__global__ void barrier_of_some() {
  if (threadIdx.x < 16) __syncthreads();
  __syncwarp();
}
__global__ void shuffle_without_me(int* out) {
  const int other = __shfl_xor_sync(0x0000ffffu, 1, 1);  // all 32 lanes come
  if (threadIdx.x == 0) *out = other;
}
__global__ void shuffle_of_the_absent(int* out) {
  int other = 0;
  if (threadIdx.x < 16) other = __shfl_xor_sync(0xffffffffu, 1, 1);
  __syncthreads();
  if (threadIdx.x == 0) *out = other;
}
__global__ void shuffles_of_two_places(int* out) {
  int other = 0;
  if (threadIdx.x < 16)
    other = __shfl_xor_sync(0xffffffffu, 1, 1);
  else
    other = __shfl_xor_sync(0xffffffffu, 2, 1);
  if (threadIdx.x == 0) *out = other;
}

cudaError_t run(void (*kernel)(), unsigned threads) {
  chimera::launch(kernel, 1, threads, 0, nullptr);
  return cudaDeviceSynchronize();
}
cudaError_t run(void (*kernel)(int*), unsigned threads) {
  const DeviceArray<int> out(1);
  chimera::launch(kernel, 1, threads, 0, nullptr, out.get());
  return cudaDeviceSynchronize();
}

TEST_CASE("divergent barriers and wrong masks are reported with their places") {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const auto failing = [&](auto* kernel, const std::string& words) {
      new_machine(seed);
      check_refused(run(kernel, 32), cudaErrorLaunchFailure, words);
      CHECK_THAT(emulator::last_report(), Contains("broken_kernels_test.cpp:"));
      // The device is lost, as a real one is.
      CHECK(cudaDeviceSynchronize() == cudaErrorLaunchFailure);
    };
    failing(divergent_barrier, "divergent barrier");
    failing(barrier_of_some, "wait for each other for ever");
    failing(shuffle_without_me, "mask 0x0000ffff, which does not name the calling lane");
    failing(shuffle_of_the_absent, "a shuffle with mask 0xffffffff");
    failing(shuffles_of_two_places, "divergent warp");
  }
}

__global__ void shuffle_from_the_returned(float* out) {
  if (threadIdx.x >= 16) return;
  const float other = __shfl_xor_sync(0xffffffffu, 1.0f, 16);  // 16 lanes that are gone
  out[threadIdx.x] = other;
}

TEST_CASE("a shuffle from a lane that takes no part gives NaN") {
  new_machine(0);
  const DeviceArray<float> out(16);
  chimera::launch(shuffle_from_the_returned, 1, 32, 0, nullptr, out.get());
  for (const float value : out.values()) CHECK(std::isnan(value));
}

// ---- Launches that a device would refuse

__global__ void nothing() {}
__global__ void __launch_bounds__(128) bounded() {}
template <int Threads>
__global__ void __launch_bounds__(Threads) bounded_by_template(int*) {}
__global__ void large_static(float* out) {
  __shared__ float tile[12289];  // 4 bytes more than 48 KiB
  for (int i = 0; i < 12289; ++i) tile[i] = 0;
  *out = tile[0];
}

TEST_CASE("launches outside of a device's limits are refused, and say the limit") {
  const auto refused = [](cudaError_t expected, const std::string& words, dim3 grid, dim3 block,
                          std::size_t shared = 0) {
    new_machine(0);
    void* none = nullptr;
    check_refused(cudaLaunchKernel(nothing, grid, block, &none, shared), expected, words);
    CHECK(cudaGetLastError() == expected);
    CHECK(cudaGetLastError() == cudaSuccess);
    CHECK(cudaDeviceSynchronize() == cudaSuccess);
  };
  refused(cudaErrorInvalidConfiguration, "1025 threads", 1, 1025);
  refused(cudaErrorInvalidConfiguration, "2048 threads", 1, dim3(32, 32, 2));
  refused(cudaErrorInvalidConfiguration, "empty launch", 0, 32);
  refused(cudaErrorInvalidConfiguration, "65535", dim3(1, 65536), 32);
  refused(cudaErrorInvalidConfiguration, "at most 1024 x 1024 x 64", 1, dim3(1, 1, 65));
  refused(cudaErrorInvalidValue, "49152", 1, 32, (48 << 10) + 1);
  CHECK_THROWS_WITH(chimera::launch(nothing, 1, 2000, 0, nullptr),
                    Contains("nothing") && Contains("2000 x 1 x 1"));
}

TEST_CASE("more threads than __launch_bounds__ promises are refused") {
  new_machine(0);
  void* none = nullptr;
  CHECK(cudaLaunchKernel(bounded, 1, 128, &none) == cudaSuccess);
  check_refused(cudaLaunchKernel(bounded, 1, 160, &none), cudaErrorLaunchOutOfResources,
                "bounded: a block of 160 threads; its __launch_bounds__ allow 128");
  int* pointer = nullptr;
  void* arguments[] = {&pointer};
  CHECK(cudaLaunchKernel(bounded_by_template<64>, 1, 64, arguments) == cudaSuccess);
  CHECK(cudaLaunchKernel(bounded_by_template<64>, 1, 65, arguments) ==
        cudaErrorLaunchOutOfResources);
}

TEST_CASE("shared memory has a limit for each device") {
  void* none = nullptr;
  for (const auto& [capability, kibibytes] : {std::pair{80, 163}, {86, 99}, {90, 227}}) {
    new_machine(0, 1, capability);
    const int most = kibibytes << 10;
    CHECK(cudaFuncSetAttribute(nothing, cudaFuncAttributeMaxDynamicSharedMemorySize, most + 1) ==
          cudaErrorInvalidValue);
    ok(cudaFuncSetAttribute(nothing, cudaFuncAttributeMaxDynamicSharedMemorySize, most));
    CHECK(cudaLaunchKernel(nothing, 1, 32, &none, static_cast<std::size_t>(most)) == cudaSuccess);
    CHECK(cudaLaunchKernel(nothing, 1, 32, &none, static_cast<std::size_t>(most) + 1) ==
          cudaErrorInvalidValue);
  }
  new_machine(0);
  const DeviceArray<float> out(1);
  chimera::launch(large_static, 1, 1, 0, nullptr, out.get());
  check_refused(cudaDeviceSynchronize(), cudaErrorLaunchFailure, "49156 bytes of static");
}

}  // namespace
