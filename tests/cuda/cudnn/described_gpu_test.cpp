// cuDNN's attention on a machine without a GPU: for a described device it says what it would run.
#include "cuda/attention/cudnn_attention.h"

#include <dlfcn.h>

#include <iostream>

#include "support/support.h"

using namespace chimera;
using namespace chimera::cuda;

namespace {

// What cuDNN asks about: numbers of NVIDIA's data sheets and of the CUDA programming guide's table
// of compute capabilities, in cuDNN's own names.
std::string described_device(const std::string& name, int version, int processors,
                             int shared_per_block) {
  return concat("{\"deviceVer\": ", version, ", \"maxGridSize\": [2147483647, 65535, 65535], ",
                "\"maxBlockSize\": [1024, 1024, 64], \"regsPerBlock\": 65536, ",
                "\"multiProcessorCount\": ", processors,
                ", \"warpSize\": 32, \"maxSharedMemoryPerBlock\": 49152, ",
                "\"maxSharedMemoryPerBlockOptin\": ", shared_per_block,
                ", \"reservedSharedMemoryPerBlock\": 1024, \"maxRegistersPerSM\": 65536, ",
                "\"maxCtasPerSM\": 32, \"maxThreadsPerBlock\": 1024, \"maxThreadsPerSM\": 2048, ",
                "\"pciDeviceId\": 0, \"isTccDriver\": 0, \"supportCoopLaunch\": 1, ",
                "\"smClockRateKHz\": 1980000, \"memClockRateKHz\": 2619000, \"l2CacheSize\": "
                "52428800, \"deviceName\": \"",
                name, "\", \"driverVer\": 13000, \"cudaDeviceId\": 0, ",
                "\"totalGlobalMem\": 85000000000}");
}
const std::string kH100 = described_device("NVIDIA H100 80GB HBM3", 900, 132, 232448),
                  kA100 = described_device("NVIDIA A100-SXM4-80GB", 800, 108, 166912);

// cuDNN opens the driver's library even for a described device; the toolkit's stub will do.
bool has_libraries() {
  for (const char* name : {"libcudnn.so.9", "libcuda.so.1"})
    if (dlopen(name, RTLD_NOW) == nullptr) {
      std::cout << "skipped: " << dlerror() << '\n';
      return false;
    }
  return true;
}

}  // namespace

TEST_CASE("cudnn: both passes are supported on A100 and H100 in every shape of GPT-2") {
  if (!has_libraries()) return;
  for (const DType type : {DType::BF16, DType::F16})
    for (const auto& [B, H, T, head] :
         {std::tuple{8, 12, 1024, 64}, std::tuple{16, 25, 1024, 64}, std::tuple{1, 20, 632, 80},
          std::tuple{2, 16, 1000, 128}, std::tuple{4, 6, 64, 32}, std::tuple{3, 5, 77, 40}}) {
      const AttentionCase c{type, B, H, T, head};
      INFO(to_string(c));
      REQUIRE(cudnn_eligible(c));
      for (const auto& [device, capability] : {std::pair{kA100, 80}, std::pair{kH100, 90}}) {
        const auto lines = check_cudnn_attention(c, device, capability);
        REQUIRE(lines.size() == 9);  // versions, then four stages of two passes
        CHECK(lines.back() == "backward: check_support: ok");
      }
    }
}

TEST_CASE("cudnn: what is not eligible, cuDNN does not take either") {
  const AttentionCase odd{DType::BF16, 2, 4, 64, 60}, large{DType::BF16, 2, 4, 64, 264},
      wide{DType::F32, 2, 4, 64, 64};
  for (const AttentionCase& c : {odd, large, wide}) CHECK_FALSE(cudnn_eligible(c));
  CHECK_FALSE(cudnn_eligible({DType::BF16, 2, 4, 0, 64}));
  if (!has_libraries()) return;
  CHECK_THROWS_WITH(check_cudnn_attention(odd, kH100, 90), Catch::Contains("multiple of 8"));
  CHECK_THROWS_AS(check_cudnn_attention(large, kH100, 90), Error);
}

TEST_CASE("cudnn: without a driver the reason is said") {
  if (!has_libraries()) return;
  std::string reason;
  const auto found = find_cudnn_attention(nullptr, reason);
  // On a machine with a GPU there is no reason.
  CHECK((found != nullptr) == reason.empty());
  if (found == nullptr) CHECK_THAT(reason, Catch::Contains("starting cuDNN: CUDNN_STATUS_"));
}
