#include "comm/local/scenarios.h"

#include <signal.h>

#include <map>
#include <optional>
#include <thread>
#include <vector>

#include "chimera/comm/background.h"
#include "chimera/comm/collectives.h"

namespace chimera::test {
namespace {

constexpr double kLong = 60;  // no failure may take this long to end the others

void sleep_for(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

// Worker 1 sends worker 2 `sent` bytes where 12 are expected; the others wait for both.
void lengths_differ(Communicator& comm, std::size_t sent) {
  std::vector<std::byte> bytes(12), sends(sent);
  const AbandonAtExit guard(comm);
  if (comm.rank() == 1) comm.send(2, 5, sends, "a message");
  if (comm.rank() == 2) comm.recv(1, 5, bytes, "a message");
  barrier(comm, 6, "the end");
}

// Worker 1 throws while the others wait for it.
template <class Exception>
void worker_1_throws(Communicator& comm, const Exception& exception) {
  barrier(comm, 0, "the start");
  if (comm.rank() == 1) throw exception;
  barrier(comm, 1, "what never comes");
}

void waits_too_long(Communicator& comm) {
  std::byte byte{};
  if (comm.rank() == 0) comm.recv(3, 0, std::span(&byte, 1), "the activation of micro-batch 7");
  sleep_for(3);
  barrier(comm, 1, "the end");
}

void forgets_a_request(Communicator& comm) {
  if (comm.rank() == 3) comm.recv_start(0, 0, {});
}

void receives_a_signal(Communicator& comm, int signal) {
  barrier(comm, 0, "the start");
  if (comm.rank() == 2) raise(signal);
  std::byte byte{};
  if (comm.rank() == 3) comm.recv(2, 1, std::span(&byte, 1), "the gradient of micro-batch 5");
  if (comm.rank() < 2) sleep_for(30);  // computing: no wait of theirs can end the job
}

// A job: an ordered sum of a megabyte from every worker, or, with `error`, that exception.
struct Gradients final : Background::Job {
  void run(std::string_view what) override {
    if (!error.empty()) Fail(error);
    float* const mine[] = {values.data()};
    sum->all_reduce(mine, values.data(), scratch.data(), what);
  }
  std::string error;
  std::vector<float> values = std::vector<float>(250'000), scratch;
  std::optional<OrderedSum> sum;
};

// What the jobs use outlives them, whatever throws.
struct Jobs {
  explicit Jobs(Communicator& comm) : background(comm.second_endpoint()) {
    for (Gradients* job : {&first, &second}) {
      job->sum.emplace(background.endpoint(), 7, std::vector{0, 1, 2, 3}, std::ssize(job->values));
      job->scratch.resize(static_cast<std::size_t>(job->sum->scratch_elements()));
    }
  }
  void start() {
    background.start(first, "the gradients of stage 2");
    last = background.start(second, "the gradients of stage 1");
  }
  Gradients first, second;
  Background background;
  Background::Ticket last = 0;
};

// Worker 1's first job throws. Two workers, it among them, wait for a message, one for its jobs.
void a_job_throws(Communicator& comm) {
  Jobs jobs(comm);
  if (comm.rank() == 1) jobs.first.error = "disk full: /data";
  jobs.start();
  if (comm.rank() < 2) barrier(comm, 0, "what never comes");
  if (comm.rank() == 2) jobs.background.wait(jobs.last);
  sleep_for(0.5);
  jobs.background.wait(jobs.last);
}

// Worker 1 throws while its jobs, and those of workers 2 and 3, wait for worker 0, which never
// starts its own.
void throws_beside_jobs(Communicator& comm) {
  Jobs jobs(comm);
  if (comm.rank() > 0) jobs.start();
  sleep_for(0.1);
  if (comm.rank() == 1) Fail("disk full: /data");
  if (comm.rank() == 0) barrier(comm, 0, "what never comes");
  jobs.background.wait(jobs.last);
}

// Worker 0's own thread computes meanwhile; worker 3 sits in another wait, with a longer deadline.
void a_job_waits_too_long(Communicator& comm) {
  Jobs jobs(comm);
  if (comm.rank() == 0) jobs.start();
  if (comm.rank() == 3) comm.set_timeout_scale(100);
  std::byte byte{};
  if (comm.rank() == 3) comm.recv(2, 0, std::span(&byte, 1), "the activation of micro-batch 7");
  sleep_for(3);
  jobs.background.wait(jobs.last);
}

// Worker 2's job expects another length than worker 1's sends.
void lengths_differ_in_a_job(Communicator& comm) {
  Jobs jobs(comm);
  if (comm.rank() == 2) {
    jobs.first.sum.emplace(jobs.background.endpoint(), 7, std::vector{0, 1, 2, 3},
                           std::vector<Index>{0, 62'500, 125'000, 187'499, 250'000});
    jobs.first.scratch.resize(static_cast<std::size_t>(jobs.first.sum->scratch_elements()));
  }
  jobs.start();
  jobs.background.wait(jobs.last);
}

// Worker 2 does not wait for its jobs, which cannot end.
void forgets_jobs(Communicator& comm) {
  Jobs jobs(comm);
  if (comm.rank() == 2) return jobs.start();
  barrier(comm, 0, "what never comes");
}

}  // namespace

Scenario scenario(const std::string& name) {
  const std::map<std::string, Scenario> scenarios{
      {"longer", {kLong, [](Communicator& comm) { lengths_differ(comm, 16); }}},
      {"shorter", {kLong, [](Communicator& comm) { lengths_differ(comm, 8); }}},
      {"empty", {kLong, [](Communicator& comm) { lengths_differ(comm, 0); }}},
      {"error", {kLong, [](Communicator& c) { worker_1_throws(c, Error("disk full: /data")); }}},
      {"usage", {kLong, [](Communicator& c) { worker_1_throws(c, UsageError("a bad key")); }}},
      {"foreign", {kLong, [](Communicator& c) { worker_1_throws(c, std::bad_alloc()); }}},
      {"deadline", {0.5, waits_too_long}},
      {"forgotten", {kLong, forgets_a_request}},
      {"killed", {kLong, [](Communicator& comm) { receives_a_signal(comm, SIGKILL); }}},
      {"stopped", {2, [](Communicator& comm) { receives_a_signal(comm, SIGSTOP); }}},
      {"job-error", {kLong, a_job_throws}},
      {"error-beside-jobs", {kLong, throws_beside_jobs}},
      {"job-deadline", {0.5, a_job_waits_too_long}},
      {"job-lengths", {kLong, lengths_differ_in_a_job}},
      {"job-forgotten", {kLong, forgets_jobs}},
      {"fine", {kLong, [](Communicator& comm) { barrier(comm, 0, "the end"); }}},
  };
  const auto found = scenarios.find(name);
  ENSURE(found != scenarios.end(), "there is no scenario ", name);
  return found->second;
}

}  // namespace chimera::test
