// The suite on the mpi transport: `mpiexec -n 4 test_comm_mpi [Catch2's arguments]`. Also one job
// that fails, `test_comm_mpi --scenario NAME`, with the exit code that a command of the program
// would give.
#include <unistd.h>

#include <cstdio>

#include "chimera/base/threads.h"
#include "chimera/comm/collectives.h"
#include "comm/local/scenarios.h"
#include "comm/transport.h"
#include "support/session.h"

namespace chimera::test {
namespace {

constexpr double kDeadline = 60;
Communicator* world = nullptr;  // run_transport() has no argument for it

// The first `workers` of a world.
class First final : public Communicator {
 public:
  First(Communicator& comm, int workers) : comm_(comm), workers_(workers) {}
  First(std::unique_ptr<Communicator> comm, int workers)
      : owned_(std::move(comm)), comm_(*owned_), workers_(workers) {}
  int rank() const override { return comm_.rank(); }
  int size() const override { return workers_; }
  std::string transport() const override { return comm_.transport(); }
  Request send_start(int peer, int channel, std::span<const std::byte> bytes) override {
    return comm_.send_start(peer, channel, bytes);
  }
  Request recv_start(int peer, int channel, std::span<std::byte> bytes) override {
    return comm_.recv_start(peer, channel, bytes);
  }
  void wait(Request request, std::string_view what) override { comm_.wait(request, what); }
  void abandon() noexcept override { comm_.abandon(); }
  std::unique_ptr<Communicator> second_endpoint() override {
    return std::make_unique<First>(comm_.second_endpoint(), workers_);
  }
  void fail(std::exception_ptr error) noexcept override { comm_.fail(std::move(error)); }

 private:
  std::unique_ptr<Communicator> owned_;
  Communicator& comm_;
  const int workers_;
};

int run_scenario(const std::string& name) {
  const Scenario chosen = scenario(name);
  try {
    run_mpi(chosen.deadline_seconds, /*threads_per_worker=*/1, chosen.body);
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(error.code());
  }
  return 0;
}

}  // namespace

// A rank that fails ends its process, and so the job: the others would wait for it.
void run_transport(int workers, const std::function<void(Communicator&)>& body) {
  First endpoint(*world, workers);
  try {
    ENSURE(world->size() == kMostWorkers, "start this with mpiexec -n ", kMostWorkers);
    if (world->rank() < workers) body(endpoint);
    barrier(*world, Communicator::kChannels - 1, "the end of a run");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %d: %s\n", world->rank(), error.what());
    _exit(1);
  }
}

}  // namespace chimera::test

int main(int argc, char** argv) {
  using namespace chimera;
  ensure_passive_waiting(argv);
  if (argc == 3 && std::string(argv[1]) == "--scenario") return test::run_scenario(argv[2]);
  int failed = 0;
  run_mpi(
      test::kDeadline, /*threads_per_worker=*/1,
      [&](Communicator& comm) {
        test::world = &comm;
        failed = test::run_session(argc, argv);
      },
      test::kChunkBytes);
  return failed;
}
