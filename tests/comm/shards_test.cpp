// The two halves of an ordered sum: every member ends with its own chunk of the sum, and gathers
// the others' chunks.
#include <algorithm>
#include <memory>
#include <random>

#include "chimera/comm/background.h"
#include "comm/counting.h"
#include "comm/summing.h"
#include "comm/transport.h"
#include "support/support.h"

using namespace chimera;
using namespace chimera::test;

namespace {

constexpr int kShardsChannel = 9;

// `part` is summed in halves: between them nothing of `result` but the own chunk has changed.
void check_halves(Part& part, bool in_place) {
  part.target = in_place ? part.pointers[0] : part.result.data();
  const std::span<float> target(part.target, part.result.size());
  std::vector<float> expected(target.begin(), target.end());
  part.sum.reduce_scatter(part.pointers, part.target, part.scratch.data(), "a reduce-scatter");
  const std::vector<float> total = serial_sum(part.count, part.sum.elements(), part.seed);
  const OrderedSum::Chunk own = part.sum.own_chunk();
  std::copy_n(total.begin() + own.first, own.count, expected.begin() + own.first);
  ENSURE(equal_bits(expected, target), "the own chunk of ", own.count, " elements at ", own.first,
         " is not the serial sum's, or another one has changed (seed ", part.seed, ")");
  part.sum.all_gather(part.target, "an all-gather");
  part.check();
}

}  // namespace

TEST_CASE("shards: scattered and gathered sums are bitwise the all-reduce, wherever they are cut") {
  struct Case {
    std::vector<int> contributors;
    std::vector<Index> borders;
  };
  const std::vector<Case> cases{{{0, 1, 2, 3}, {0, 10, 20, 30, 40}},
                                {{3, 1, 0, 2}, {0, 0, 1, 5000, 5003}},  // none, one, most, a few
                                {{2, 0, 2, 0}, {0, 17, 1024}},          // two contributions each
                                {{1, 3, 1, 3, 0}, {0, 70'000, 70'000, 70'001}},
                                {{0, 0, 3, 3, 3}, {0, 0, 99}},
                                {{1, 1}, {0, 5}},  // alone
                                {{0, 1, 2, 3}, {0, 0, 0, 0, 0}}};
  run_transport(4, [&](Communicator& comm) {
    unsigned seed = 0;
    for (const Case& c : cases)
      for (const bool in_place : {false, true}) {
        ++seed;
        if (std::ranges::find(c.contributors, comm.rank()) == c.contributors.end()) continue;
        Part part(comm, kShardsChannel, c.contributors, c.borders, seed);
        check_halves(part, in_place);
        Part whole(comm, kShardsChannel, c.contributors, c.borders, seed);
        whole.start(in_place);
        whole.wait();
        whole.check();
      }
  });
}

TEST_CASE("shards: random members, contributions and borders") {
  run_transport(4, [](Communicator& comm) {
    std::mt19937 draw(5);
    for (unsigned seed = 200; seed < 260; ++seed) {
      std::vector<int> contributors(1 + draw() % 9);
      for (int& c : contributors) c = static_cast<int>(draw() % 4);
      std::vector<int> members = contributors;
      std::ranges::sort(members);
      members.erase(std::ranges::unique(members).begin(), members.end());
      std::vector<Index> borders(members.size() + 1);
      for (std::size_t m = 1; m < borders.size(); ++m)
        borders[m] = borders[m - 1] + static_cast<Index>(draw() % 3 == 0 ? 0 : draw() % 3000);
      const bool in_place = draw() % 2 == 0;
      if (std::ranges::find(members, comm.rank()) == members.end()) continue;
      Part part(comm, kShardsChannel, contributors, borders, seed);
      ENSURE(part.sum.members() == members && members[part.sum.member()] == comm.rank(), "worker ",
             comm.rank(), " is not member ", part.sum.member());
      check_halves(part, in_place);
    }
  });
}

TEST_CASE("shards: without borders chunks are even, the first ones longer by one") {
  CHECK(even_borders(10, 4) == std::vector<Index>{0, 3, 6, 8, 10});
  CHECK(even_borders(2, 3) == std::vector<Index>{0, 1, 2, 2});
  CHECK(even_borders(0, 2) == std::vector<Index>{0, 0, 0});
}

// Own chunks c, of n elements in all: n - c sent of each contribution, then c to each other member.
TEST_CASE("shards: each half moves its part of the length") {
  run_transport(4, [](Communicator& comm) {
    const std::vector<Index> borders{0, 1000, 1500, 4000, 4000};
    Counting counted(comm);
    Part part(counted, kShardsChannel, {0, 1, 2, 3, 1}, borders, 3);
    const Index own = part.sum.own_chunk().count, contributions = comm.rank() == 1 ? 2 : 1;
    part.sum.reduce_scatter(part.pointers, part.result.data(), part.scratch.data(), "a half");
    const Index scattered = counted.sent_bytes;
    part.sum.all_gather(part.result.data(), "the other half");
    const Index gathered = counted.sent_bytes - scattered;
    ENSURE(scattered == 4 * contributions * (4000 - own), "worker ", comm.rank(), " sent ",
           scattered, " bytes to scatter");
    ENSURE(gathered == 4 * 3 * own, "worker ", comm.rank(), " sent ", gathered, " bytes to gather");
    ENSURE(part.sum.scratch_elements() == (5 - contributions) * own, "scratch of ",
           part.sum.scratch_elements());
  });
}

// As a step does with sharded optimizer state: the own chunk is changed between the halves, by the
// worker's thread, while the background runs the next reduce-scatter.
TEST_CASE("shards: halves in the background, with an update between them") {
  struct Half final : Background::Job {
    Half(Part& part_, bool gathers_) : part(part_), gathers(gathers_) {}
    void run(std::string_view what) override {
      if (gathers)
        part.sum.all_gather(part.result.data(), what);
      else
        part.sum.reduce_scatter(part.pointers, part.result.data(), part.scratch.data(), what);
    }
    Part& part;
    bool gathers;
  };
  run_transport(3, [](Communicator& comm) {
    constexpr unsigned kParts = 6;
    std::vector<std::unique_ptr<Part>> parts;
    std::vector<std::unique_ptr<Half>> scatters, gathers;
    Background background(comm.second_endpoint());
    std::vector<Background::Ticket> tickets, last;
    for (unsigned i = 0; i < kParts; ++i) {
      parts.push_back(std::make_unique<Part>(background.endpoint(), kShardsChannel,
                                             std::vector{2, 0, 1, 0},
                                             std::vector<Index>{0, 400 * i, 401 * i, 2000 * i}, i));
      scatters.push_back(std::make_unique<Half>(*parts.back(), false));
      gathers.push_back(std::make_unique<Half>(*parts.back(), true));
      tickets.push_back(background.start(*scatters.back(), "a half"));
    }
    for (unsigned i = 0; i < kParts; ++i) {
      background.wait(tickets[i]);
      const OrderedSum::Chunk own = parts[i]->sum.own_chunk();
      for (Index k = 0; k < own.count; ++k)
        parts[i]->result[static_cast<std::size_t>(own.first + k)] *= -0.5f;
      last.push_back(background.start(*gathers[i], "the other half"));
    }
    for (unsigned i = 0; i < kParts; ++i) {
      background.wait(last[i]);
      std::vector<float> expected = serial_sum(4, parts[i]->sum.elements(), i);
      for (float& v : expected) v *= -0.5f;
      ENSURE(equal_bits(expected, parts[i]->result), "part ", i, " is not the updated sum");
    }
  });
}
