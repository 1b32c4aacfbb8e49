#pragma once
// Device memory with an owner, for these tests.
#include <cstring>
#include <span>
#include <vector>

#include "cuda/device/port.h"
#include "emulator/control.h"
#include "support/support.h"

namespace emulator_test {

inline void ok(cudaError_t status) {
  INFO(cudaGetErrorString(status));
  REQUIRE(status == cudaSuccess);
}

template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(std::size_t n) : size_(n) { ok(cudaMalloc(&data_, n * sizeof(T))); }
  DeviceArray(std::span<const T> values) : DeviceArray(values.size()) {
    ok(cudaMemcpy(data_, values.data(), values.size_bytes(), cudaMemcpyHostToDevice));
  }
  DeviceArray(const std::vector<T>& values) : DeviceArray(std::span<const T>(values)) {}
  ~DeviceArray() { (void)cudaFree(data_); }
  DeviceArray(const DeviceArray&) = delete;

  T* get() const { return data_; }
  std::size_t size() const { return size_; }
  // Waits for the whole device, then copies out.
  std::vector<T> values() const {
    ok(cudaDeviceSynchronize());
    std::vector<T> out(size_);
    ok(cudaMemcpy(out.data(), data_, size_ * sizeof(T), cudaMemcpyDeviceToHost));
    return out;
  }

 private:
  T* data_ = nullptr;
  std::size_t size_;
};

// A machine of its own for each run; every other option as told.
inline void new_machine(std::uint64_t seed, int devices = 1, int capability = 90) {
  emulator::Options options;
  options.seed = seed;
  options.devices = devices;
  options.capability = capability;
  options.deadline_seconds = 2;
  emulator::reset(options);
}

struct Death {
  int exit_code;
  std::string words;
};
// What a child process that runs body() on a machine of its own, with two devices, ends with and
// says.
Death death_of(const std::function<void()>& body, std::uint64_t seed = 0);

constexpr std::uint64_t kSeeds = 8;

// What body() returns, for each of the first seeds.
template <class Body>
auto for_seeds(const Body& body) {
  std::vector<decltype(body())> results;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    new_machine(seed);
    results.push_back(body());
  }
  return results;
}

template <class T>
bool all_the_same(const std::vector<std::vector<T>>& results) {
  for (const auto& r : results)
    if (r.size() != results[0].size() ||
        std::memcmp(r.data(), results[0].data(), r.size() * sizeof(T)) != 0)
      return false;
  return true;
}

}  // namespace emulator_test
