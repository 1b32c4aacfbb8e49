// A worker that fails, or never sends, ends all others, with its message first: over memory of
// GPUs.
#include <optional>
#include <thread>

#include "chimera/comm/background.h"
#include "comm/local/outcome.h"
#include "comm/local/scenarios.h"
#include "comm/transport.h"
#include "emulator/control.h"
#include "on_device.h"

using namespace chimera;
using namespace chimera::test;
using Catch::Matchers::Contains;

namespace {

const DeviceRun kCopies{DeviceTransport::Copies, 2, 4}, kStaged{DeviceTransport::Staged, 1, 3},
    kNccl{DeviceTransport::Nccl, kMostWorkers, 5};

// Without run_on_devices()'s checks: what failed may be reported and left behind.
Outcome run(const DeviceRun& run, int workers, double deadline_seconds, const DeviceBody& body) {
  emulator::Options options;
  options.seed = run.seed;
  options.devices = run.devices;
  emulator::reset(options);
  return timed([&](Outcome& outcome) {
    try {
      run_local(workers, 60, /*threads_per_worker=*/1, [&](Communicator& host) {
        const auto device = make_cuda_device(host.rank() % run.devices);
        DeviceTransportSettings settings{.deadline_seconds = 60};
        for (int peer = 0; peer < workers; ++peer)
          if (peer != host.rank()) settings.peers.push_back(peer);
        settings.members = settings.peers;
        const auto comm = make_device_communicator(run.transport, host, *device, settings);
        host.set_timeout_scale(deadline_seconds / 60);
        body(*comm, *device);
      });
    } catch (const Error& error) {
      outcome.message = error.what();
      outcome.exit_code = static_cast<int>(error.code());
    }
  });
}

[[noreturn]] void be_busy_elsewhere(Communicator& comm) {
  for (;;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    comm.throw_if_failed();
  }
}

Outcome run_scenario(const DeviceRun& how, const std::string& name) {
  const Scenario chosen = scenario(name);
  return run(how, kMostWorkers, chosen.deadline_seconds,
             [&](DeviceCommunicator& comm, CudaDevice& device) {
               OnDevice endpoint(comm, device);
               chosen.body(endpoint);
             });
}

}  // namespace

TEST_CASE("GPU messages: unequal lengths name both lengths, workers and the channel") {
  const std::string begin = "worker 2: the message from worker 1 to worker 2 on channel 5 has ";
  for (const DeviceRun& how : {kCopies, kStaged}) {
    INFO(to_string(how));
    check_outcome(run_scenario(how, "longer"), begin + "16 bytes, its receiver expects 12", 1);
    check_outcome(run_scenario(how, "shorter"), begin + "8 bytes, its receiver expects 12", 1);
    check_outcome(run_scenario(how, "empty"), begin + "0 bytes, its receiver expects 12", 1);
    check_outcome(run_scenario(how, "job-lengths"), "its receiver expects ", 1);
  }
  // NCCL's receiver does not learn what was sent: on a GPU the deadline ends the job.
  for (const char* name : {"longer", "shorter", "empty", "job-lengths"})
    check_outcome(run_scenario(kNccl, name), "counts and types must agree", 1);
}

TEST_CASE("GPU messages: the first failure is reported with its exit code") {
  for (const DeviceRun& how : {kCopies, kStaged, kNccl}) {
    INFO(to_string(how));
    check_outcome(run_scenario(how, "error"), "worker 1: disk full: /data", 1);
    check_outcome(run_scenario(how, "usage"), "worker 1: a bad key", 2);
    check_outcome(run_scenario(how, "foreign"), "worker 1: std::bad_alloc", 1);
    check_outcome(run_scenario(how, "job-error"), "worker 1: disk full: /data", 1);
    check_outcome(run_scenario(how, "error-beside-jobs"), "worker 1: disk full: /data", 1);
  }
}

TEST_CASE("GPU messages: what never comes is named after the deadline") {
  for (const DeviceRun& how : {kCopies, kStaged, kNccl}) {
    INFO(to_string(how));
    const Outcome outcome =
        run(how, kMostWorkers, 0.5, [&](DeviceCommunicator& comm, CudaDevice& device) {
          if (comm.rank() > 0) be_busy_elsewhere(comm);
          OnDevice endpoint(comm, device);
          std::byte byte{};
          endpoint.recv(3, 0, std::span(&byte, 1), "the activation of micro-batch 7");
        });
    check_outcome(outcome, "worker 0: waited 0.5 s for worker 3 in the activation of micro-batch 7",
                  1);
    CHECK(outcome.seconds >= 0.5);
  }
}

// Worker 0 begins a sum with all others. NCCL is waiting for any of them.
TEST_CASE("GPU messages: a sum that never comes is named after the deadline") {
  struct Sum final : Background::Job {
    explicit Sum(Communicator& comm) : sum(comm, 7, {0, 1, 2, 3}, Index{1000}) {
      scratch.resize(static_cast<std::size_t>(sum.scratch_elements()));
    }
    void run(std::string_view what) override {
      float* const mine[] = {values.data()};
      sum.all_reduce(mine, values.data(), scratch.data(), what);
    }
    OrderedSum sum;
    std::vector<float> values = std::vector<float>(1000), scratch;
  };
  for (const DeviceRun& how : {kCopies, kStaged, kNccl}) {
    INFO(to_string(how));
    const Outcome outcome =
        run(how, kMostWorkers, 0.5, [&](DeviceCommunicator& comm, CudaDevice& device) {
          if (comm.rank() > 0) be_busy_elsewhere(comm);
          OnDevice endpoint(comm, device);
          std::optional<Sum> sum;
          Background background(endpoint.second_endpoint());
          sum.emplace(background.endpoint());
          background.wait(background.start(*sum, "the gradients of stage 2"));
        });
    const char* const whom = how.transport == DeviceTransport::Nccl ? "1, 2 or 3" : "1";
    check_outcome(
        outcome, concat("worker 0: waited 0.5 s for worker ", whom, " in the gradients of stage 2"),
        1);
  }
}

TEST_CASE("GPU messages: a message left behind is an error") {
  for (const DeviceRun& how : {kCopies, kStaged, kNccl}) {
    INFO(to_string(how));
    check_outcome(run_scenario(how, "forgotten"), "worker 3 abandoned its messages", 1);
    check_outcome(run_scenario(how, "job-forgotten"), "worker 2 abandoned its messages", 1);
  }
}

// The host of worker 0 goes on: what it gives the GPU waits for ever, and so would the host in any
// call that waits for the GPU. A copy to the host, and synchronize().
TEST_CASE("nccl: a stream that waits for ever is let go, and the host finds the reason") {
  for (const bool by_copy : {true, false}) {
    const Outcome outcome =
        run({DeviceTransport::Nccl, 2, 4}, 2, 0.5, [&](DeviceCommunicator& comm, CudaDevice& gpu) {
          const Buffer memory(gpu, 64);
          const AbandonAtExit guard(comm);
          if (comm.rank() == 1) be_busy_elsewhere(comm);
          const std::span bytes(memory.data(), 64);
          comm.wait(comm.recv_start(1, 0, bytes), "the activation of micro-batch 2");
          comm.wait(comm.recv_start(1, 0, bytes), "the activation of micro-batch 3");
          gpu.zero(memory.data(), 64);
          std::byte host[64];
          if (by_copy) gpu.copy_out(host, memory.data(), 64);
          comm.synchronize("the step");
        });
    check_outcome(outcome, "worker 0: waited 0.5 s for worker 1 in the activation of micro-batch 2",
                  1);
    CHECK(outcome.seconds >= 0.5);
  }
}

// Worker 0 throws with transfers enqueued in both directions; its buffers are freed on the way out,
// which waits for the GPU.
TEST_CASE("GPU messages: an exception ends transfers before the buffers that they use") {
  for (const DeviceRun& how : {kCopies, kStaged, kNccl})
    for (int round = 0; round < 4; ++round) {
      INFO(to_string(how) << ", round " << round);
      const Outcome outcome =
          run(how, kMostWorkers, 60, [&](DeviceCommunicator& comm, CudaDevice& device) {
            const Buffer out(device, 4096), in(device, 4096);
            const AbandonAtExit guard(comm);
            device.zero(out.data(), out.bytes());
            const int next = (comm.rank() + 1) % 4, previous = (comm.rank() + 3) % 4;
            const auto receive =
                comm.recv_start(previous, 0, {in.data(), static_cast<std::size_t>(in.bytes())});
            if (comm.rank() == round) Fail("round ", round);
            const auto send =
                comm.send_start(next, 0, {out.data(), static_cast<std::size_t>(out.bytes())});
            comm.wait(receive, "a message");
            comm.wait(send, "a message");
            comm.synchronize("the end");
            barrier(comm.host(), 1, "the end");
          });
      check_outcome(outcome, concat("worker ", round, ": round ", round), 1);
    }
}

TEST_CASE("GPU messages: memory of a device meets memory of the host") {
  const Outcome outcome = run(kCopies, 2, 60, [](DeviceCommunicator& comm, CudaDevice& device) {
    const Buffer memory(device, 64);
    std::byte host[64]{};
    const AbandonAtExit guard(comm);
    if (comm.rank() == 0) comm.send(1, 3, {memory.data(), 64}, "a message");
    if (comm.rank() == 1) comm.host().recv(0, 3, host, "a message");
  });
  check_outcome(outcome,
                "worker 1: the message from worker 0 to worker 1 on channel 3 is of a device's "
                "memory at one end and of the host's at the other",
                1);
}

TEST_CASE("nccl: workers that are not connected, and sums without members, are refused by name") {
  const auto refuses = [](const std::function<void()>& call, const std::string& expected) {
    std::string message = "no error";
    try {
      call();
    } catch (const Error& error) {
      message = error.what();
    }
    ENSURE(message.find(expected) != std::string::npos, "expected ", expected, ", got ", message);
  };
  emulator::Options options;
  options.devices = 3;
  emulator::reset(options);
  run_local(3, 60, 1, [&](Communicator& host) {
    const auto device = make_cuda_device(host.rank());
    const DeviceTransportSettings settings{
        .peers = host.rank() == 1 ? std::vector{2, 0, 2} : std::vector{1}, .members = {}};
    const auto comm = make_device_communicator(DeviceTransport::Nccl, host, *device, settings);
    const auto second = comm->second_endpoint();
    if (host.rank() != 1)
      refuses([&] { comm->send_start(2 - host.rank(), 0, {}); }, "are not connected");
    refuses([&] { comm->send_start(host.rank(), 0, {}); }, "are not connected");
    refuses([&] { second->recv_start((host.rank() + 1) % 3, 0, {}); }, "are not connected");
    refuses([&] { second->second_endpoint(); }, "no second endpoint");
    barrier(host, 0, "the end");
  });
  CHECK(emulator::report_count() == 0);
}
