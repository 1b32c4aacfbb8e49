#include "comm/local/scenarios.h"

#include <signal.h>

#include <map>
#include <thread>
#include <vector>

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
      {"fine", {kLong, [](Communicator& comm) { barrier(comm, 0, "the end"); }}},
  };
  const auto found = scenarios.find(name);
  ENSURE(found != scenarios.end(), "there is no scenario ", name);
  return found->second;
}

}  // namespace chimera::test
