// Collectives: results do not depend on the transport, nor on how they are chunked.
#include "chimera/comm/collectives.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <thread>

#include "comm/counting.h"
#include "comm/summing.h"
#include "comm/transport.h"
#include "support/support.h"

using namespace chimera;
using namespace chimera::test;

namespace {

constexpr int kCollectivesChannel = 9;

}  // namespace

TEST_CASE("ordered sum: bitwise the serial sum in the contributors' order") {
  const std::vector<std::vector<int>> orders{{0, 1, 2, 3},    {3, 1, 0, 2}, {2, 0}, {1, 3, 1, 3, 0},
                                             {0, 0, 3, 3, 3}, {1},          {2, 2}};
  run_transport(4, [&](Communicator& comm) {
    unsigned seed = 0;
    for (const auto& contributors : orders)
      for (const Index elements : {0, 1, 2, 3, 5, 1023, 1025, 70'001}) {
        ++seed;
        if (std::ranges::find(contributors, comm.rank()) == contributors.end()) continue;
        Part part(comm, kCollectivesChannel, contributors, elements, seed);
        part.start(/*in_place=*/seed % 2 == 0);
        part.wait();
        part.check();
      }
  });
}

TEST_CASE("ordered sum: one object sums again and again") {
  run_transport(3, [](Communicator& comm) {
    Part part(comm, kCollectivesChannel, {2, 0, 1}, 1000, 5);
    for (int i = 0; i < 20; ++i) {
      part.start(/*in_place=*/false);
      part.wait();
      part.check();
    }
  });
}

TEST_CASE("ordered sum: random contributors and lengths") {
  run_transport(4, [](Communicator& comm) {
    std::mt19937 draw(3);
    for (unsigned seed = 100; seed < 160; ++seed) {
      std::vector<int> contributors(1 + draw() % 9);
      for (int& c : contributors) c = static_cast<int>(draw() % 4);
      const Index elements = static_cast<Index>(draw() % 5000);
      const bool in_place = draw() % 2 == 0;
      if (std::ranges::find(contributors, comm.rank()) == contributors.end()) continue;
      Part part(comm, kCollectivesChannel, contributors, elements, seed);
      part.start(in_place);
      part.wait();
      part.check();
    }
  });
}

// Worker 0 waits for each sum before it starts the next, worker 1 starts all first: on one channel
// the messages still find their sum.
TEST_CASE("ordered sum: sums share a channel, however starts and waits interleave") {
  run_transport(3, [](Communicator& comm) {
    std::vector<std::unique_ptr<Part>> parts;
    for (unsigned i = 0; i < 5; ++i)
      parts.push_back(std::make_unique<Part>(comm, kCollectivesChannel, std::vector{0, 1, 2, 1},
                                             100 + Index{i}, 30 + i));
    if (comm.rank() == 0) {
      for (auto& part : parts) {
        part->start(true);
        part->wait();
      }
    } else {
      for (auto& part : parts) part->start(comm.rank() == 1);
      for (auto& part : parts) part->wait();
    }
    for (const auto& part : parts) part->check();
  });
}

TEST_CASE("ordered sum: a member alone sends nothing, r members 2 (r - 1) / r of the length each") {
  run_transport(4, [](Communicator& comm) {
    constexpr Index kElements = 4000;
    Counting counted(comm);
    if (comm.rank() == 2) {
      Part alone(counted, kCollectivesChannel, {2, 2}, kElements, 1);
      alone.start(true);
      alone.wait();
      alone.check();
      ENSURE(counted.messages == 0 && alone.sum.scratch_elements() == 0, "a member alone sent ",
             counted.messages, " messages");
    }
    Part all(counted, kCollectivesChannel, {0, 1, 2, 3}, kElements, 2);
    all.start(true);
    all.wait();
    const Index expected = 2 * 3 * kElements / 4 * static_cast<Index>(sizeof(float));
    ENSURE(counted.sent_bytes == expected, "sent ", counted.sent_bytes, " bytes, not ", expected);
    ENSURE(all.sum.scratch_elements() == 3 * kElements / 4, "scratch ", all.sum.scratch_elements());
  });
}

TEST_CASE("ordered sum: what it cannot do is refused") {
  run_transport(2, [](Communicator& comm) {
    const auto error_of = [](const std::function<void()>& call) -> std::string {
      try {
        call();
      } catch (const Error& error) {
        return error.what();
      }
      return "no error";
    };
    const auto contains = [](const std::string& text, const char* part) {
      ENSURE(text.find(part) != std::string::npos, "expected ", part, ", got ", text);
    };
    const int other = 1 - comm.rank();
    contains(error_of([&] { OrderedSum(comm, kCollectivesChannel, {other}, 1); }),
             "brings nothing");
    contains(error_of([&] {
               OrderedSum(comm, Communicator::kChannels, {0, 1}, 1);
             }),
             "no channel 128");
    const std::vector<int> both{0, 1};
    const auto with_borders = [&](std::vector<Index> borders) {
      return error_of([&] { OrderedSum(comm, kCollectivesChannel, both, borders); });
    };
    contains(with_borders({0, 5}), "2 borders of chunks for 2 members");
    contains(with_borders({0, 3, 2}), "never descend");
    contains(with_borders({1, 2, 3}), "begin with 1");
    contains(error_of([&] { OrderedSum(comm, kCollectivesChannel, both, Index{-1}); }),
             "-1 elements");
    OrderedSum sum(comm, kCollectivesChannel, {comm.rank()}, 1);
    contains(error_of([&] { sum.wait("x"); }), "not started");
    float value = 1;
    float* const two[] = {&value, &value};
    contains(error_of([&] { sum.start(two, &value, nullptr); }), "brings 2 contributions");
  });
}

// Of the ranks from `first` on, `reach` of them (a power of two), as a binomial tree adds them.
double tree_sum(const std::function<double(int)>& value, int first, int reach, int size) {
  if (reach == 1) return value(first);
  const int middle = first + reach / 2;
  const double low = tree_sum(value, first, reach / 2, size);
  return middle < size ? low + tree_sum(value, middle, reach / 2, size) : low;
}

// 1e16 + 1 - 1e16 is 0 or 1 or 2 by the order of addition.
TEST_CASE("sum over ranks: along a binomial tree, equal everywhere, any length") {
  for (int workers = 1; workers <= kMostWorkers; ++workers)
    run_transport(workers, [&](Communicator& comm) {
      const auto value_of = [](int rank, std::size_t i) {
        const double values[] = {1.0, 1e16, -1e16, 1.0};
        return values[(static_cast<std::size_t>(rank) + i) % 4];
      };
      for (const std::size_t length : {0, 1, 511, 512, 513, 1500}) {
        std::vector<double> values(length);
        for (std::size_t i = 0; i < length; ++i) values[i] = value_of(comm.rank(), i);
        sum_over_ranks(comm, kCollectivesChannel, values, "a sum");
        for (std::size_t i = 0; i < length; ++i) {
          const double expected =
              tree_sum([&](int r) { return value_of(r, i); }, 0,
                       static_cast<int>(std::bit_ceil(static_cast<unsigned>(workers))), workers);
          ENSURE(values[i] == expected, "element ", i, " of ", length, " is ", values[i], ", not ",
                 expected);
        }
      }
    });
}

TEST_CASE("sum over ranks: what one rank alone brings arrives with the same bits") {
  for (int workers = 1; workers <= kMostWorkers; ++workers)
    run_transport(workers, [&](Communicator& comm) {
      std::vector<double> values(600);
      const auto brought = [](std::size_t i) {
        if (i % 7 == 3) return std::numeric_limits<double>::quiet_NaN();
        return i % 7 == 5 ? std::numeric_limits<double>::infinity() : 0.1 * static_cast<double>(i);
      };
      for (std::size_t i = 0; i < values.size(); ++i)
        if (static_cast<int>(i) % comm.size() == comm.rank()) values[i] = brought(i);
      sum_over_ranks(comm, kCollectivesChannel, values, "a sum");
      for (std::size_t i = 0; i < values.size(); ++i)
        ENSURE(std::bit_cast<std::uint64_t>(values[i]) == std::bit_cast<std::uint64_t>(brought(i)),
               "element ", i, " is ", values[i]);
    });
}

TEST_CASE("broadcast: every root's bytes on every rank") {
  for (int workers = 1; workers <= kMostWorkers; ++workers)
    run_transport(workers, [&](Communicator& comm) {
      for (int root = 0; root < workers; ++root)
        for (const std::size_t length : {0, 1, 1000}) {
          std::vector<std::byte> bytes(length, static_cast<std::byte>(comm.rank()));
          broadcast(comm, kCollectivesChannel, root, bytes, "a broadcast");
          for (const std::byte b : bytes)
            ENSURE(b == static_cast<std::byte>(root), "worker ", comm.rank(), " has not worker ",
                   root, "'s bytes");
        }
    });
}

// Each worker in turn comes 20 ms late; the steady clock is one for all processes of a machine.
TEST_CASE("barrier: nobody leaves before the last has come") {
  run_transport(4, [](Communicator& comm) {
    const auto now = [] {
      return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
          .count();
    };
    for (int late = 0; late < 4; ++late) {
      if (comm.rank() == late) std::this_thread::sleep_for(std::chrono::milliseconds(20));
      double came = now();
      barrier(comm, kCollectivesChannel, "a barrier");
      const double left = now();
      broadcast(comm, kCollectivesChannel, late, std::as_writable_bytes(std::span(&came, 1)),
                "the late time");
      ENSURE(left >= came, "worker ", comm.rank(), " left ", came - left, " s before worker ", late,
             " came");
    }
  });
}

TEST_CASE("gathered texts: of the first ranks, in their order, on rank 0 alone") {
  run_transport(4, [](Communicator& comm) {
    for (const int count : {1, 3, 4}) {
      if (comm.rank() >= count) continue;
      const std::string mine(static_cast<std::size_t>(comm.rank()) * 1000, 'x');
      const auto texts = gather_texts(comm, kCollectivesChannel, count, mine, "a text");
      if (comm.rank() > 0) {
        ENSURE(texts.empty(), "worker ", comm.rank(), " has ", texts.size(), " texts");
        continue;
      }
      ENSURE(std::ssize(texts) == count, texts.size(), " texts of ", count);
      for (std::size_t i = 0; i < texts.size(); ++i)
        ENSURE(texts[i].size() == i * 1000, "text ", i, " has ", texts[i].size(), " bytes");
    }
  });
}
