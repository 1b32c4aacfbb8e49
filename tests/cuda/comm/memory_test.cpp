// What messages of GPU memory keep, and what they are told about.
#include <set>

#include "comm/counting.h"
#include "comm/transport.h"
#include "cuda/device/pinned_pool.h"
#include "emulator/control.h"
#include "on_device.h"
#include "support/support.h"

using namespace chimera;
using namespace chimera::test;

namespace {

// A GPU that counts what is made on it.
class CountingDevice final : public Device {
 public:
  explicit CountingDevice(Device& device) : device_(device) {}
  std::string name() const override { return device_.name(); }
  void* allocate(Index bytes) override { return ++made, device_.allocate(bytes); }
  void release(void* memory) noexcept override { device_.release(memory); }
  void zero(void* memory, Index bytes) override { device_.zero(memory, bytes); }
  void copy_in(void* to, const void* host, Index bytes) override {
    device_.copy_in(to, host, bytes);
  }
  void copy_out(void* host, const void* from, Index bytes) override {
    device_.copy_out(host, from, bytes);
  }
  void copy(void* to, const void* from, Index bytes, Stream stream) override {
    device_.copy(to, from, bytes, stream);
  }
  std::unique_ptr<Event> make_event(bool timed) override {
    return ++made, device_.make_event(timed);
  }
  void record(Event& mark, Stream stream) override { device_.record(mark, stream); }
  void await(const Event& mark, Stream stream) override { device_.await(mark, stream); }
  bool reached(const Event& mark) override { return device_.reached(mark); }
  void synchronize() override { device_.synchronize(); }

  std::atomic<int> made = 0;  // also by the other worker's thread

 private:
  Device& device_;
};

}  // namespace

TEST_CASE("GPU messages: copies make no marks after first use") {
  emulator::Options options;
  options.devices = 2;
  emulator::reset(options);
  run_local(2, 60, 1, [](Communicator& host) {
    const auto gpu = make_cuda_device(host.rank());
    CountingDevice device(*gpu);
    const auto comm = make_copies_communicator(host, device, nullptr);
    const Buffer out(*gpu, 640), in(*gpu, 640);
    const AbandonAtExit guard(*comm);
    const auto step = [&] {
      std::vector<Communicator::Request> requests;
      for (int i = 0; i < 10; ++i) {
        requests.push_back(comm->send_start(1 - host.rank(), 0, {out.data() + 64 * i, 64}));
        requests.push_back(comm->recv_start(1 - host.rank(), 0, {in.data() + 64 * i, 64}));
      }
      for (const auto request : requests) comm->wait(request, "a message");
      comm->synchronize("the step");
      barrier(host, 1, "the step");
    };
    gpu->zero(out.data(), out.bytes());
    step();
    const int before = device.made;
    barrier(host, 1, "all have read the count");
    for (int i = 0; i < 5; ++i) step();
    ENSURE(device.made == before, device.made - before, " things made after the first step");
  });
  CHECK(emulator::report_count() == 0);
}

// The same sizes in the same order, ended in another order than they began: the same memory.
TEST_CASE("GPU messages: page-locked memory is used again, whichever order it comes back in") {
  emulator::Options options;
  options.seed = 4;
  emulator::reset(options);
  const auto device = make_cuda_device(0);
  PinnedPool pool(*device);
  const std::vector<Index> sizes{100, 5000, 100, 1 << 20, 4096, 70'000};
  std::set<Pinned*> first, all;
  for (int step = 0; step < 6; ++step) {
    std::vector<Pinned*> taken;
    for (const Index size : sizes) {
      taken.push_back(pool.take(size));
      CHECK(taken.back()->bytes >= size);
      all.insert(taken.back());
    }
    CHECK(std::set(taken.begin(), taken.end()).size() == sizes.size());
    if (step == 0) first = all;
    const Stream stream = Stream::Down;
    for (std::size_t i = 0; i < taken.size(); ++i)
      pool.give_back(taken[(i * 5 + static_cast<std::size_t>(step)) % taken.size()],
                     i % 2 == 0 ? &stream : nullptr);
  }
  CHECK(all == first);
  Pinned* const small = pool.take(1);
  CHECK(small->bytes == 4096);  // not one of the large ones
}

TEST_CASE("GPU messages: copies between processes are refused with the way out") {
  emulator::reset({});
  run_local(1, 60, 1, [](Communicator& host) {
    const auto device = make_cuda_device(0);
    Counting other(host);  // whatever is not the local transport's
    std::string message;
    try {
      make_device_communicator(DeviceTransport::Copies, other, *device, {});
    } catch (const Error& error) {
      message = error.what();
    }
    ENSURE(message.find("threads of one process") != std::string::npos &&
               message.find("parallel.transport") != std::string::npos,
           message);
  });
}

TEST_CASE("GPU messages: each transport says its name, and gives its host's endpoint back") {
  for (const auto& [transport, name] : {std::pair{DeviceTransport::Copies, "device copies"},
                                        {DeviceTransport::Staged, "staged by local"},
                                        {DeviceTransport::Nccl, "nccl"}})
    run_on_devices({transport, 2, 0}, 2, 60, [&](DeviceCommunicator& comm, CudaDevice&) {
      ENSURE(comm.transport() == name, comm.transport());
      ENSURE(comm.host().transport() == "local" && &comm.host().host() == &comm.host(), "its host");
      ENSURE(comm.stream() == Stream::Compute, "the stream of the first endpoint");
      const auto second = comm.second_endpoint();
      ENSURE(dynamic_cast<DeviceCommunicator&>(*second).stream() == Stream::Reductions,
             "the second's");
      ENSURE(&second->host() != &comm.host(), "the second's host is the first's");
      double sum = 1;
      sum_over_ranks(second->host(), 4, std::span(&sum, 1), "host memory");
      ENSURE(sum == 2, sum);
    });
  CHECK(nccl_built());
  CHECK(nccl_library() == "NCCL 2.28.9");  // the emulator's
}
