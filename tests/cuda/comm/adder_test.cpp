// Sums of contributions in device memory: bitwise the host's, however many and wherever they lie.
#include "comm/summing.h"
#include "on_device.h"
#include "support/support.h"

using namespace chimera;
using namespace chimera::test;

// 64 sources fit into a launch: on both sides of that, and twice. The result is a buffer of its
// own, the first, one in the middle or the last source; odd offsets forbid wide accesses.
TEST_CASE("adder: bitwise the host's, for any number of sources and place of the result") {
  for (const std::uint64_t seed : {0, 1, 4})
    run_on_devices(
        {DeviceTransport::Copies, 1, seed}, 1, 30,
        [&](DeviceCommunicator& comm, CudaDevice& device) {
          const auto host = make_host_adder();
          for (const std::size_t count : {1, 2, 63, 64, 65, 128, 150})
            for (const Index elements : {1, 1023})
              for (const Index offset : {0, 1})
                for (const std::size_t place : {std::size_t{0}, count / 2, count - 1, count}) {
                  const Index stride = elements + offset;
                  Buffer memory(device,
                                static_cast<Index>(count + 1) * stride * Index{sizeof(float)});
                  std::vector<float> values(static_cast<std::size_t>(memory.bytes()) /
                                            sizeof(float));
                  const auto base = reinterpret_cast<float*>(memory.data());
                  std::vector<const float*> here, there;
                  for (std::size_t i = 0; i <= count; ++i) {
                    const Index at = static_cast<Index>(i) * stride + offset;
                    const auto c = contribution(i, elements, static_cast<unsigned>(seed));
                    std::ranges::copy(c, values.begin() + at);
                    here.push_back(values.data() + at);
                    there.push_back(base + at);
                  }
                  to_device(comm, memory.data(), values.data(), memory.bytes());
                  const std::span sources(there.data(), count);
                  comm.adder()->add(
                      const_cast<float*>(there[place]), sources,
                      const_cast<float*>(place == 0 && count > 1 ? there[1] : there[0]), elements);
                  host->add(const_cast<float*>(here[place]), {here.data(), count}, nullptr,
                            elements);
                  std::vector<float> result(static_cast<std::size_t>(elements));
                  to_host(comm, result.data(), there[place], elements * Index{sizeof(float)});
                  ENSURE(equal_bits(result, {here[place], result.size()}), count, " sources of ",
                         elements, " elements, result in the place of ", place, ", offset ",
                         offset);
                }
        });
}

TEST_CASE("adder: a sum of no contributions is refused, and one that nothing can hold") {
  run_on_devices(
      {DeviceTransport::Copies, 1, 0}, 1, 30, [&](DeviceCommunicator& comm, CudaDevice& device) {
        const Buffer memory(device, 4);
        auto* const x = reinterpret_cast<float*>(memory.data());
        const std::vector<const float*> sources(65, x);
        const auto error_of = [&](std::size_t count, float* spare) -> std::string {
          try {
            comm.adder()->add(x, {sources.data(), count}, spare, 1);
          } catch (const Error& error) {
            return error.what();
          }
          return "no error";
        };
        ENSURE(error_of(0, nullptr).find("no contributions") != std::string::npos, "0 sources");
        for (float* spare : {static_cast<float*>(nullptr), x})
          ENSURE(error_of(65, spare).find("all of one worker") != std::string::npos,
                 error_of(65, spare));
        ENSURE(error_of(64, nullptr) == "no error", error_of(64, nullptr));
      });
}
