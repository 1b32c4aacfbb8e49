// A worker that fails ends all others at once, with its message first: workers as threads.
#include <chrono>
#include <optional>
#include <thread>

#include "chimera/comm/background.h"
#include "chimera/comm/collectives.h"
#include "comm/local/outcome.h"
#include "comm/local/scenarios.h"
#include "comm/transport.h"
#include "support/support.h"

using namespace chimera;
using namespace chimera::test;
using Catch::Matchers::Contains;

namespace {

Outcome run_as_threads(const std::string& name) {
  const Scenario chosen = scenario(name);
  return timed([&](Outcome& outcome) {
    try {
      run_local(kMostWorkers, chosen.deadline_seconds, /*threads_per_worker=*/1, chosen.body);
    } catch (const Error& error) {
      outcome.message = error.what();
      outcome.exit_code = static_cast<int>(error.code());
    }
  });
}

}  // namespace

TEST_CASE("threads: messages of unequal length name both lengths, workers and the channel") {
  const std::string begin = "worker 2: the message from worker 1 to worker 2 on channel 5 has ";
  check_outcome(run_as_threads("longer"), begin + "16 bytes, its receiver expects 12", 1);
  check_outcome(run_as_threads("shorter"), begin + "8 bytes, its receiver expects 12", 1);
  check_outcome(run_as_threads("empty"), begin + "0 bytes, its receiver expects 12", 1);
}

TEST_CASE("threads: the first failure is reported with its exit code, Aborted never is") {
  check_outcome(run_as_threads("error"), "worker 1: disk full: /data", 1);
  check_outcome(run_as_threads("usage"), "worker 1: a bad key", 2);
  check_outcome(run_as_threads("foreign"), "worker 1: std::bad_alloc", 1);
}

TEST_CASE("threads: a wait beyond the deadline names both workers and what was waited for") {
  const Outcome outcome = run_as_threads("deadline");
  check_outcome(outcome, "worker 0: waited 0.5 s for worker 3 in the activation of micro-batch 7",
                1);
  CHECK(outcome.seconds >= 0.5);
}

TEST_CASE("threads: a late wait names the worker that keeps the others waiting") {
  const auto chain = [](Communicator& comm) {
    std::byte byte{};
    if (comm.rank() < 2) comm.recv(comm.rank() + 1, 0, std::span(&byte, 1), "a hop");
    if (comm.rank() == 2) std::this_thread::sleep_for(std::chrono::seconds(1));
  };
  CHECK_THROWS_WITH(run_local(3, 0.3, 1, chain), Contains("worker 2 is busy elsewhere"));
}

TEST_CASE(
    "threads: a message left behind, or expected from a worker that has finished, is an error") {
  check_outcome(run_as_threads("forgotten"),
                "worker 3: it ended with 1 messages that it never waited for", 1);
  const auto forsaken = [](Communicator& comm) {
    std::byte byte{};
    if (comm.rank() == 0) comm.recv(1, 0, std::span(&byte, 1), "the last gradient");
  };
  CHECK_THROWS_WITH(
      run_local(2, 60, 1, forsaken),
      "worker 0: worker 1 has finished, but its part of the last gradient is missing");
}

TEST_CASE("threads: one worker runs in the calling thread and leaves its team as it was") {
  const auto caller = std::this_thread::get_id();
  bool same = false;
  run_local(1, 60, 1, [&](Communicator&) { same = std::this_thread::get_id() == caller; });
  CHECK(same);
  CHECK_THROWS_WITH(run_local(1, 60, 1, [](Communicator&) { Fail("no prefix"); }), "no prefix");
  CHECK_THROWS_WITH(run_local(0, 60, 1, [](Communicator&) {}), Contains("at least 1 worker"));
  CHECK_THROWS_WITH(run_local(2, 0, 1, [](Communicator&) {}), Contains("timeout_seconds"));
}

TEST_CASE("threads: a job in the background that throws ends its worker, and all others") {
  check_outcome(run_as_threads("job-error"), "worker 1: disk full: /data", 1);
}

TEST_CASE("threads: a worker that throws beside its jobs ends them, and all others") {
  check_outcome(run_as_threads("error-beside-jobs"), "worker 1: disk full: /data", 1);
}

TEST_CASE("threads: a job's wait beyond the deadline says where the other worker is") {
  check_outcome(run_as_threads("job-deadline"),
                "worker 0: waited 0.5 s for worker 1 in the gradients of stage 2; worker 1 is busy "
                "elsewhere",
                1);
  const auto chain = [](Communicator& comm) {
    std::byte byte{};
    if (comm.rank() == 0) {
      comm.second_endpoint()->recv(1, 0, std::span(&byte, 1), "the gradients");
    } else {
      comm.set_timeout_scale(100);
      comm.recv(0, 0, std::span(&byte, 1), "the activation");
    }
  };
  CHECK_THROWS_WITH(run_local(2, 0.3, 1, chain),
                    Contains("worker 1 waits for worker 0 in the activation"));
}

TEST_CASE("threads: lengths that differ in a job name both, workers and the channel") {
  check_outcome(run_as_threads("job-lengths"), "its receiver expects ", 1);
}

TEST_CASE("threads: jobs that are never waited for are an error") {
  check_outcome(run_as_threads("job-forgotten"),
                "worker 2 abandoned its messages or background jobs, then ended without an error",
                1);
}

TEST_CASE("threads: timeout_scale is also the second endpoint's") {
  const auto late = [](Communicator& comm) {
    const auto second = comm.second_endpoint();
    comm.set_timeout_scale(200);
    if (comm.rank() == 0) return second->recv(1, 0, {}, "what comes after four deadlines");
    std::this_thread::sleep_for(std::chrono::milliseconds(400));
    second->send(0, 0, {}, "what comes after four deadlines");
  };
  CHECK_NOTHROW(run_local(2, 0.1, 1, late));
}

// Worker 0 throws with messages under way in both directions; its buffers are freed on the way out.
// The address and thread sanitizers see a copy that comes too late.
TEST_CASE("threads: an exception ends requests before the buffers that they use") {
  for (int round = 0; round < 50; ++round) {
    const auto body = [&](Communicator& comm) {
      std::vector<std::byte> out(1 << 20), in(1 << 20);
      const AbandonAtExit guard(comm);
      const int next = (comm.rank() + 1) % 4, previous = (comm.rank() + 3) % 4;
      const auto receive = comm.recv_start(previous, 0, in);
      if (comm.rank() == round % 4) Fail("round ", round);
      const auto send = comm.send_start(next, 0, out);
      comm.wait(receive, "a message");
      comm.wait(send, "a message");
      barrier(comm, 1, "the end");
    };
    CHECK_THROWS_WITH(run_local(4, 60, 1, body), concat("worker ", round % 4, ": round ", round));
  }
}

// The same for jobs: they end before their buffers, at whatever point of the sum.
TEST_CASE("threads: an exception ends jobs before the buffers that they use") {
  struct Job final : Background::Job {
    void run(std::string_view what) override {
      float* const mine[] = {values.data()};
      sum->all_reduce(mine, values.data(), scratch.data(), what);
    }
    std::vector<float> values = std::vector<float>(1 << 18), scratch;
    std::optional<OrderedSum> sum;
  };
  for (int round = 0; round < 50; ++round) {
    const auto body = [&](Communicator& comm) {
      Job jobs[3];
      Background background(comm.second_endpoint());
      Background::Ticket last = 0;
      for (Job& job : jobs) {
        job.sum.emplace(background.endpoint(), 0, std::vector{0, 1, 2, 3}, Index{1 << 18});
        job.scratch.resize(static_cast<std::size_t>(job.sum->scratch_elements()));
        last = background.start(job, "a sum");
      }
      std::this_thread::sleep_for(std::chrono::microseconds(20 * round));
      if (comm.rank() == round % 4) Fail("round ", round);
      background.wait(last);
      barrier(comm, 1, "the end");
    };
    CHECK_THROWS_WITH(run_local(4, 60, 1, body), concat("worker ", round % 4, ": round ", round));
  }
}
