// Machines that only the emulator can be.
#include "../on_device.h"
#include "chimera/device/cuda_info.h"
#include "emulator/control.h"
#include "support/support.h"

using namespace chimera;
using namespace chimera::test;

namespace {

// The emulator as another machine, for the life of the object.
class Machine {
 public:
  explicit Machine(const std::function<void(emulator::Options&)>& change) {
    emulator::Options options = before_;
    change(options);
    emulator::reset(options);
  }
  ~Machine() { emulator::reset(before_); }

 private:
  emulator::Options before_ = emulator::options();
};

}  // namespace

TEST_CASE("cuda device: a machine without a GPU is told from a number out of range") {
  const emulator::Options before = emulator::options();
  emulator::Options options = before;
  options.devices = 0;
  emulator::reset(options);
  CHECK_THROWS_WITH(make_cuda_device(0), Catch::Matchers::StartsWith("there is no GPU"));
  options.devices = 2;
  emulator::reset(options);
  CHECK(make_cuda_device(1)->ordinal() == 1);
  CHECK_THROWS_WITH(make_cuda_device(2), Catch::Matchers::Contains("there are 2"));
  emulator::reset(before);
}

TEST_CASE("cuda info: each thing that a machine can lack is one line with the way out") {
  using Catch::Matchers::Contains;
  const auto one_line = [](const std::string& text) {
    return !text.empty() && text.find('\n') == std::string::npos;
  };
  {
    const Machine none([](emulator::Options& o) { o.driver = 0; });
    CHECK_THAT(cuda_problem(), Contains("no NVIDIA driver") && Contains("device.kind to cpu"));
    CHECK(one_line(cuda_problem()));
    CHECK(cuda_devices().empty());
    CHECK_THROWS_WITH(make_cuda_device(0), cuda_problem());
    CHECK(cuda_libraries().front().version == "none");
  }
  {
    const Machine old([](emulator::Options& o) { o.driver = 12040; });
    CHECK_THAT(cuda_problem(), Contains("knows CUDA 12.4") && Contains("needs 13.0") &&
                                   Contains("update the driver"));
    CHECK(one_line(cuda_problem()));
    CHECK_THROWS_WITH(make_cuda_device(0), cuda_problem());
  }
  {
    const Machine empty([](emulator::Options& o) { o.devices = 0; });
    CHECK_THAT(cuda_problem(), Contains("there is no GPU") && Contains("CUDA_VISIBLE_DEVICES"));
    CHECK(one_line(cuda_problem()));
    CHECK(cuda_devices().empty());
  }
  {
    const Machine older([](emulator::Options& o) { o.capability = 80, o.code = 90; });
    CHECK(cuda_problem().empty());
    const std::vector<CudaDeviceInfo> devices = cuda_devices();
    REQUIRE(devices.size() == 1);
    CHECK_THAT(devices[0].problem,
               Contains("no code for compute capability 8.0") && Contains("=native"));
    CHECK(one_line(devices[0].problem));
    CHECK_THROWS_WITH(make_cuda_device(0), Contains("was not built for cuda:0"));
  }
}

TEST_CASE("cuda info: devices with their memory and whom they reach") {
  const Machine two([](emulator::Options& o) { o.devices = 2; });
  using Catch::Matchers::Contains;
  const std::vector<CudaDeviceInfo> devices = cuda_devices();
  REQUIRE(devices.size() == 2);
  CHECK(devices[0].peers == std::vector<int>{1});
  CHECK(devices[1].peers == std::vector<int>{0});
  CHECK(devices[0].bus != devices[1].bus);
  CHECK(devices[1].ordinal == 1);
  CHECK(devices[1].capability == emulator::options().capability);
  CHECK(devices[1].memory_bytes == static_cast<Index>(emulator::options().memory_bytes));
  CHECK(cuda_device_count() == 2);
  CHECK(cuda_device(1).bus == devices[1].bus);
  CHECK_THROWS_WITH(cuda_device(2), Contains("no GPU 2 among 2"));
  const auto held = make_cuda_device(1);
  const Buffer memory(*held, Index{1} << 20);
  CHECK(devices[1].free_bytes - cuda_devices()[1].free_bytes >= memory.bytes());
  CHECK(cuda_devices()[0].free_bytes == devices[0].free_bytes);
  for (const CudaLibrary& library : cuda_libraries()) CHECK_FALSE(library.version.empty());
}
