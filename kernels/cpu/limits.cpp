#include <algorithm>
#include <chrono>

#include "chimera/base/threads.h"
#include "chimera/ops/machine_limits.h"
#include "isa.h"

namespace chimera {
namespace {

double seconds_of(const std::function<void()>& body, Index runs) {
  const auto start = std::chrono::steady_clock::now();
  for (Index i = 0; i < runs; ++i) body();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  return took.count() / static_cast<double>(runs);
}

}  // namespace

std::vector<double> median_seconds(const std::vector<std::function<void()>>& bodies, int rounds) {
  ENSURE(rounds >= 1, "a median of ", rounds, " rounds");
  constexpr double kTurn = 4e-3;  // seconds; long against the clock and a team's wake-up
  std::vector<Index> runs;
  for (const auto& body : bodies) {
    body();  // warms caches, makes primitives
    runs.push_back(
        static_cast<Index>(std::clamp(kTurn / std::max(seconds_of(body, 1), 1e-9), 1.0, 1e6)));
  }
  std::vector<std::vector<double>> times(bodies.size());
  for (int round = 0; round < rounds; ++round)
    for (std::size_t i = 0; i < bodies.size(); ++i)
      times[i].push_back(seconds_of(bodies[i], runs[i]));
  std::vector<double> medians;
  for (auto& t : times) {
    std::sort(t.begin(), t.end());
    medians.push_back(t[t.size() / 2]);
  }
  return medians;
}

TimedBodies time_with_limits(const std::vector<std::function<void()>>& bodies, int rounds,
                             const std::string& isa) {
  const cpu::Kernels k = cpu::choose_kernels(isa);
  const Index threads = team_size(), n = Index{1} << 23;  // 3 arrays of 32 MiB
  std::vector<float> a(static_cast<std::size_t>(n)), b(a), c(a);
  std::vector<double> done(static_cast<std::size_t>(threads));
  auto all = bodies;
  all.push_back([&] {
    parallel_for(threads, 1, [&](Index begin, Index end) {
      for (Index i = begin; i < end; ++i) {
        float sink = 0;
        done[static_cast<std::size_t>(i)] = k.fma_loop(1 << 18, &sink);
      }
    });
  });
  all.push_back([&] {
    parallel_for(n, 1024, [&](Index begin, Index end) {
      k.triad(a.data(), b.data(), c.data(), 3.0f, begin, end);
    });
  });
  TimedBodies timed{median_seconds(all, rounds), {}};
  double operations = 0;
  for (const double d : done) operations += d;
  timed.limits = {operations / timed.seconds[bodies.size()],
                  12.0 * static_cast<double>(n) / timed.seconds[bodies.size() + 1], k.isa,
                  static_cast<int>(threads)};
  timed.seconds.resize(bodies.size());
  return timed;
}

MachineLimits measure_machine_limits(const std::string& isa) {
  return time_with_limits({}, 15, isa).limits;
}

}  // namespace chimera
