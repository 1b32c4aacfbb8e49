// After first use no message and no collective allocates: a training step must not.
#include <atomic>
#include <cstdlib>
#include <new>
#include <vector>

#include "chimera/comm/background.h"
#include "chimera/comm/collectives.h"
#include "comm/transport.h"
#include "support/support.h"

namespace {
std::atomic<long> allocations{0};

void* allocate(std::size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* p = std::malloc(bytes > 0 ? bytes : 1)) return p;
  throw std::bad_alloc();
}
}  // namespace

void* operator new(std::size_t bytes) { return allocate(bytes); }
void* operator new[](std::size_t bytes) { return allocate(bytes); }
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return std::malloc(bytes); }
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
  return std::malloc(bytes);
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t) noexcept { std::free(p); }

using namespace chimera;

TEST_CASE("nothing is allocated after first use") {
  test::run_transport(4, [](Communicator& comm) {
    constexpr Index kElements = 1001;
    std::vector<float> mine(kElements);
    float* const contributions[] = {mine.data()};
    OrderedSum sum(comm, 1, {3, 1, 0, 2}, kElements);
    std::vector<float> scratch(static_cast<std::size_t>(sum.scratch_elements()));
    std::vector<double> values(700);
    std::vector<std::byte> large(200'000), received(200'000);

    struct Sharded final : Background::Job {
      Sharded(OrderedSum& s, float* const* m, float* r) : sum(s), mine(m, 1), scratch(r) {}
      void run(std::string_view what) override {
        sum.reduce_scatter(mine, mine[0], scratch, what);
        sum.all_gather(mine[0], what);
      }
      OrderedSum& sum;
      std::span<float* const> mine;
      float* scratch;
    };
    Background background(comm.second_endpoint());
    std::vector<float> sharded(kElements);
    float* const sharded_contributions[] = {sharded.data()};
    OrderedSum halves(background.endpoint(), 1, {3, 1, 0, 2}, {0, 0, 500, 1000, kElements});
    std::vector<float> halves_scratch(static_cast<std::size_t>(halves.scratch_elements()));
    Sharded job(halves, sharded_contributions, halves_scratch.data());
    const auto step = [&] {
      const auto ticket = background.start(job, "a sharded sum");
      sum.start(contributions, mine.data(), scratch.data());
      const auto send = comm.send_start((comm.rank() + 1) % 4, 5, large);
      comm.recv((comm.rank() + 3) % 4, 5, received, "a message");
      comm.wait(send, "a message");
      sum.wait("a sum");
      sum_over_ranks(comm, 2, values, "values");
      barrier(comm, 4, "a barrier");
      background.wait(ticket);
    };
    step();
    const long before = allocations.load();
    barrier(comm, 4, "all have read the count");
    for (int i = 0; i < 10; ++i) step();
    const long after = allocations.load();
    ENSURE(after == before, after - before, " allocations in 10 steps after the first");
  });
}
