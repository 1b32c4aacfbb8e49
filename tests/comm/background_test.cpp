// Jobs off the critical path: they progress while no thread of any worker waits for them, in the
// order started, and their messages are their own.
#include "chimera/comm/background.h"

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <random>
#include <thread>

#include "chimera/base/threads.h"
#include "comm/summing.h"
#include "comm/transport.h"
#include "support/support.h"

using namespace chimera;
using namespace chimera::test;

namespace {

constexpr int kChannel = 9;

struct Call final : Background::Job {
  explicit Call(std::function<void()> body) : call(std::move(body)) {}
  void run(std::string_view) override { call(); }
  std::function<void()> call;
};

struct Reduction final : Background::Job {
  Reduction(Background& background, std::vector<int> contributors, Index elements, unsigned seed)
      : part(background.endpoint(), kChannel, contributors, elements, seed) {}
  void run(std::string_view what) override {
    part.target = part.result.data();
    part.sum.all_reduce(part.pointers, part.target, part.scratch.data(), what);
    ran = true;
  }
  Part part;
  std::atomic<bool> ran = false;
};

// Computes, so to say, until the flag is set: waits for nothing of the transport.
void compute_until(const std::atomic<bool>& flag, const char* what) {
  const auto start = std::chrono::steady_clock::now();
  while (!flag) {
    ENSURE(std::chrono::steady_clock::now() - start < std::chrono::seconds(50), what,
           " did not happen while the worker computed");
    std::this_thread::yield();
  }
}

}  // namespace

// Were bytes to move only in some worker's wait, no flag would be set.
TEST_CASE("background: a reduction ends while every worker computes") {
  run_transport(4, [](Communicator& comm) {
    std::optional<Reduction> reduction;
    Background background(comm.second_endpoint());
    reduction.emplace(background, std::vector{2, 0, 3, 1}, 300'001, 1);
    const auto ticket = background.start(*reduction, "a reduction");
    compute_until(reduction->ran, "the reduction");
    background.wait(ticket);
    reduction->part.check();
  });
}

// Worker 1's reduction needs worker 0's job, whose worker waits for what comes after it.
TEST_CASE("background: a job progresses while its worker waits for something else") {
  run_transport(2, [](Communicator& comm) {
    std::optional<Reduction> reduction;
    Background background(comm.second_endpoint());
    reduction.emplace(background, std::vector{0, 1}, 100'000, 2);
    const auto ticket = background.start(*reduction, "a reduction");
    if (comm.rank() == 0) {
      comm.recv(1, kChannel, {}, "word from worker 1");
    } else {
      compute_until(reduction->ran, "the reduction");
      comm.send(0, kChannel, {}, "word to worker 0");
    }
    background.wait(ticket);
    reduction->part.check();
  });
}

// More jobs than the ring of tickets begins with; each is waited for at random.
TEST_CASE("background: jobs run in the order started, whatever the order of waits") {
  run_transport(3, [](Communicator& comm) {
    constexpr std::size_t kJobs = 200;
    std::vector<std::size_t> order;
    std::vector<std::unique_ptr<Call>> jobs;
    std::vector<Background::Ticket> tickets;
    Background background(comm.second_endpoint());
    const int next = (comm.rank() + 1) % 3, previous = (comm.rank() + 2) % 3;
    for (std::size_t i = 0; i < kJobs; ++i) {
      jobs.push_back(std::make_unique<Call>([&, i] {
        std::size_t sent = i, received = kJobs;
        Communicator& own = background.endpoint();
        const auto send = own.send_start(next, kChannel, std::as_bytes(std::span(&sent, 1)));
        own.recv(previous, kChannel, std::as_writable_bytes(std::span(&received, 1)), "a job");
        own.wait(send, "a job");
        ENSURE(received == i, "job ", i, " received job ", received, "'s message");
        order.push_back(i);
      }));
      tickets.push_back(background.start(*jobs.back(), "a job"));
    }
    std::ranges::shuffle(tickets, std::mt19937(static_cast<unsigned>(comm.rank())));
    for (const auto ticket : tickets) background.wait(ticket);
    ENSURE(order.size() == kJobs && std::ranges::is_sorted(order), order.size(), " of ", kJobs,
           " jobs ran, or in another order");
  });
}

// All workers start the same reductions in one order, and end them between starts as they please.
TEST_CASE("background: starts and waits interleave differently on every worker") {
  run_transport(4, [](Communicator& comm) {
    std::mt19937 own(static_cast<unsigned>(comm.rank()));
    std::vector<std::unique_ptr<Reduction>> reductions;
    Background background(comm.second_endpoint());
    for (unsigned i = 0; i < 8; ++i)
      reductions.push_back(std::make_unique<Reduction>(background, std::vector{3, 0, 2, 0, 1},
                                                       static_cast<Index>(100 + 997 * i), i));
    for (int step = 0; step < 10; ++step) {
      std::vector<Background::Ticket> open;
      for (auto& reduction : reductions) {
        open.push_back(background.start(*reduction, "a reduction"));
        while (!open.empty() && own() % 2 == 0) {
          std::swap(open[own() % open.size()], open.back());
          background.wait(open.back());
          open.pop_back();
        }
      }
      std::ranges::shuffle(open, own);
      for (const auto ticket : open) background.wait(ticket);
      for (const auto& reduction : reductions) reduction->part.check();
    }
  });
}

// Equal peers and channels on both endpoints, other contents and lengths.
TEST_CASE("background: the two endpoints' messages do not mix") {
  run_transport(2, [](Communicator& comm) {
    const int peer = 1 - comm.rank();
    const auto exchange = [peer](Communicator& endpoint, int value, std::size_t length) {
      for (int i = 0; i < 300; ++i) {
        std::vector<int> sent(length, value + i), received(length);
        const auto send = endpoint.send_start(peer, kChannel, std::as_bytes(std::span(sent)));
        endpoint.recv(peer, kChannel, std::as_writable_bytes(std::span(received)), "a message");
        endpoint.wait(send, "a message");
        ENSURE(sent == received, "message ", i, " of ", value, " brought ", received[0]);
      }
    };
    std::optional<Call> job;
    Background background(comm.second_endpoint());
    job.emplace([&] { exchange(background.endpoint(), 1000, 7); });
    const auto ticket = background.start(*job, "the second endpoint's");
    exchange(comm, 2000, 5);
    background.wait(ticket);
  });
}

TEST_CASE("background: one after the other, each with its times, in a team of one") {
  run_transport(2, [](Communicator& comm) {
    set_team_size(3);
    Call job([] {
      ENSURE(team_size() == 1, "a job's team is ", team_size());
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    });
    Background background(comm.second_endpoint());
    const auto before = std::chrono::steady_clock::now();
    const auto first = background.start(job, "a job"), second = background.start(job, "a job");
    const Background::Times b = background.wait(second), a = background.wait(first);
    ENSURE(before <= a.begin && a.begin + std::chrono::milliseconds(2) <= a.end &&
               a.end <= b.begin && b.begin < b.end,
           "the times of two jobs overlap, or are none");
    ENSURE(team_size() == 3, "the worker's team became ", team_size());
    set_team_size(1);
  });
}

TEST_CASE("background: ticket 0 is nothing to wait for, and a ticket ends once") {
  run_transport(2, [](Communicator& comm) {
    Call job([] {});
    Background background(comm.second_endpoint());
    background.wait(0);
    const auto ticket = background.start(job, "a job");
    background.wait(ticket);
    for (const Background::Ticket wrong : {ticket, ticket + 1, Background::Ticket{-1}}) {
      std::string error;
      try {
        background.wait(wrong);
      } catch (const Error& e) {
        error = e.what();
      }
      ENSURE(error.find("has been waited for, or was never given") != std::string::npos,
             "waiting for ", wrong, " gave: ", error);
    }
  });
}

// With jobs that nobody has waited for, but that have run; then a new one in its place.
TEST_CASE("background: ends, and another one begins, with messages in between") {
  run_transport(3, [](Communicator& comm) {
    for (unsigned i = 0; i < 5; ++i) {
      std::optional<Reduction> reduction;
      Call last([] {});
      Background background(comm.second_endpoint());
      reduction.emplace(background, std::vector{0, 1, 2}, 1000, i);
      background.start(*reduction, "a reduction");
      background.wait(background.start(last, "the last"));
      reduction->part.check();
    }
  });
}
