// Who may touch which memory, and when.
#include <unistd.h>

#include "device_array.h"

namespace {

using namespace emulator_test;
using Catch::Contains;

__global__ void write_at(float* x, long i) { x[i] = 1; }
__global__ void read_at(float* out, const float* x, long i) { *out = x[i]; }
__global__ void write_without_bound(float* x) { x[blockIdx.x * blockDim.x + threadIdx.x] = 1; }

// By a fault; under the address sanitizer by its report.
void check_dies(const std::string& words, const std::function<void()>& body) {
  const Death death = death_of(body);
  CHECK(death.exit_code != 0);
  CHECK(death.exit_code != 99);
  CHECK_THAT(death.words, Contains(words) || Contains("AddressSanitizer"));
}

TEST_CASE("host code that touches device memory dies, and the message says what it touched") {
  check_dies("host code touches byte 40 of an allocation of 400 bytes on device 0", [] {
    const DeviceArray<float> x(100);
    volatile float* p = x.get();
    (void)p[10];
  });
  check_dies("host code touches byte 0 of an allocation of 64 bytes", [] {
    const DeviceArray<float> x(16);
    ok(cudaMemset(x.get(), 0, 64));
    ok(cudaDeviceSynchronize());
    *x.get() = 1;  // also after the device has been at work
  });
}

TEST_CASE("kernels that leave an allocation far behind die at once, and are named") {
  const auto launch_at = [](long i) {
    return [i] {
      const DeviceArray<float> x(128);
      chimera::launch(write_at, 1, 1, 0, nullptr, x.get(), i);
      (void)cudaDeviceSynchronize();
    };
  };
  CHECK(death_of(launch_at(127)).exit_code == 0);
  check_dies(
      "kernel write_at, block (0, 0, 0), thread (0, 0, 0) touches 0 bytes past the end of "
      "an allocation of 512 bytes on device 0",
      launch_at(128));
  check_dies("kernel write_at", launch_at(-1024));
  // The grid covers 256 elements, the array has 130.
  check_dies("kernel write_without_bound, block (1, 0, 0), thread (", [] {
    const DeviceArray<float> x(130);
    chimera::launch(write_without_bound, 2, 128, 0, nullptr, x.get());
    (void)cudaDeviceSynchronize();
  });
}

TEST_CASE("writes a little past the end are found when the device is waited for") {
  const Death death = death_of([] {
    float* x = nullptr;
    ok(cudaMalloc(&x, 100 * sizeof(float)));  // 112 bytes up to the next multiple of 256
    chimera::launch(write_at, 1, 1, 0, nullptr, x, 101L);
    if (cudaDeviceSynchronize() != cudaSuccess) _exit(7);
  });
  CHECK(death.exit_code != 0);
  CHECK_THAT(death.words, Contains("written 4 bytes past the end of an allocation of 400 bytes") ||
                              Contains("AddressSanitizer"));
}

__global__ void overrun_dynamic(int i) {
  CHIMERA_DYNAMIC_SHARED(float, tile);
  tile[i] = 1;
}

TEST_CASE("writes behind the dynamic shared memory are found") {
  const auto write = [](int i) {
    return death_of([i] {
      chimera::launch(overrun_dynamic, 1, 1, 36, nullptr, i);
      if (cudaDeviceSynchronize() != cudaSuccess) _exit(7);
    });
  };
  CHECK(write(8).exit_code == 0);
  const Death death = write(9);
  CHECK(death.exit_code != 0);
  CHECK_THAT(death.words, Contains("writes behind the 36 bytes of its dynamic shared memory") ||
                              Contains("AddressSanitizer"));
}

#ifdef __SANITIZE_ADDRESS__
__global__ void overrun_static(float* out, int i) {
  __shared__ float tile[9];
  tile[i] = 1;
  *out = tile[i];
}
__global__ void overrun_local(float* out, int i) {
  float local[9];
  for (int j = 0; j < 9; ++j) local[j] = 1;
  __syncthreads();
  *out = local[i];
}

TEST_CASE(
    "the address sanitizer sees kernels' static shared memory, local arrays, and small overruns") {
  const auto dies = [](const std::function<void()>& body) {
    const std::string words = death_of(body).words;
    return words.find("AddressSanitizer") != std::string::npos ||
           words.find("runtime error") !=
               std::string::npos;  // that of undefined behaviour was first
  };
  const auto run = [](void (*kernel)(float*, int), int i) {
    return [=] {
      const DeviceArray<float> out(1);
      chimera::launch(kernel, 1, 2, 0, nullptr, out.get(), i);
      (void)cudaDeviceSynchronize();
    };
  };
  for (auto* kernel : {overrun_static, overrun_local}) {
    CHECK_FALSE(dies(run(kernel, 8)));
    CHECK(dies(run(kernel, 9)));
  }
  CHECK(dies([] {  // even a read, one element past the end
    const DeviceArray<float> x(100), out(1);
    chimera::launch(read_at, 1, 1, 0, nullptr, out.get(), x.get(), 100L);
    (void)cudaDeviceSynchronize();
  }));
}
#endif

TEST_CASE("memory that was freed is not touched again") {
  new_machine(0);
  float* x = nullptr;
  ok(cudaMalloc(&x, 400));
  ok(cudaFree(x));
  CHECK(cudaFree(x) == cudaErrorInvalidValue);
  CHECK_THAT(emulator::last_report(), Contains("a freed"));
  CHECK(cudaMemset(x, 0, 4) == cudaErrorInvalidValue);
  void* arguments[] = {&x, nullptr};
  long index = 0;
  arguments[1] = &index;
  CHECK(cudaLaunchKernel(write_at, 1, 1, arguments) == cudaErrorInvalidValue);
  CHECK_THAT(emulator::last_report(), Contains("write_at: argument 1 points to byte 0 of a freed"));
}

TEST_CASE("a kernel is not given host memory, unless it is page-locked") {
  new_machine(0);
  float host = 0;
  float* pointer = &host;
  long index = 0;
  void* arguments[] = {&pointer, &index};
  CHECK(cudaLaunchKernel(write_at, 1, 1, arguments) == cudaErrorInvalidValue);
  CHECK_THAT(emulator::last_report(), Contains("argument 1 points to host memory"));
  ok(cudaMallocHost(&pointer, 64));
  CHECK(cudaLaunchKernel(write_at, 1, 1, arguments) == cudaSuccess);
  ok(cudaDeviceSynchronize());
  CHECK(pointer[0] == 1);
  ok(cudaFreeHost(pointer));
}

TEST_CASE("copies must stay inside of allocations, and go where their name says") {
  new_machine(0);
  const DeviceArray<float> x(100);
  std::vector<float> host(100);
  CHECK(cudaMemcpy(host.data(), x.get(), 404, cudaMemcpyDeviceToHost) == cudaErrorInvalidValue);
  CHECK_THAT(emulator::last_report(), Contains("404 bytes whose source starts at byte 0"));
  CHECK(cudaMemcpy(host.data(), x.get(), 400, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
  CHECK_THAT(emulator::last_report(), Contains("HostToDevice that is DeviceToHost"));
  CHECK(cudaMemcpy(host.data(), x.get(), 400, cudaMemcpyDefault) == cudaSuccess);
  CHECK(cudaMemset(x.get() + 50, 0, 201) == cudaErrorInvalidValue);
  CHECK(cudaMemset(host.data(), 0, 4) == cudaErrorInvalidValue);
}

TEST_CASE("a device has so much memory and no more") {
  emulator::Options options;
  options.memory_bytes = 1 << 20;
  emulator::reset(options);
  void *a = nullptr, *b = nullptr;
  ok(cudaMalloc(&a, 1 << 19));
  CHECK(cudaMalloc(&b, (1 << 19) + 1) == cudaErrorMemoryAllocation);
  std::size_t free_bytes = 0, total = 0;
  ok(cudaMemGetInfo(&free_bytes, &total));
  CHECK(free_bytes == std::size_t{1} << 19);
  CHECK(total == std::size_t{1} << 20);
  ok(cudaFree(a));
  ok(cudaMalloc(&b, 1 << 20));
  CHECK(emulator::statistics().live_allocations == 1);
  ok(cudaFree(b));
}

TEST_CASE("another device's memory is out of reach until peer access is enabled") {
  const auto reach_over = [](bool enable) {
    return [enable] {
      const DeviceArray<float> mine(1);
      ok(cudaSetDevice(1));
      const DeviceArray<float> theirs(std::vector<float>{3});
      ok(cudaSetDevice(0));
      if (enable) ok(cudaDeviceEnablePeerAccess(1, 0));
      chimera::launch(read_at, 1, 1, 0, nullptr, mine.get(), theirs.get(), 0L);
      if (mine.values()[0] != 3) _exit(7);
    };
  };
  CHECK(death_of(reach_over(true)).exit_code == 0);
  check_dies(
      "kernel read_at, block (0, 0, 0), thread (0, 0, 0) touches byte 0 of an allocation of "
      "4 bytes on device 1",
      reach_over(false));
}

}  // namespace
