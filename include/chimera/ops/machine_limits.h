#pragma once
// Timing kernels against what the machine itself can do, measured in the same run: on a shared
// machine only such ratios can be compared.
#include <functional>
#include <string>
#include <vector>

namespace chimera {

struct MachineLimits {
  double flops = 0;  // fp32 operations per second: multiply-adds from registers
  double bytes = 0;  // per second: a = b + s c over arrays larger than any cache
  std::string isa;   // the instruction set measured
  int threads = 1;
};

// Seconds of one run of each body: the median over `rounds` rounds in which every body has its
// turn, so that a slow moment of the machine meets all of them. A short body runs several times in
// its turn.
std::vector<double> median_seconds(const std::vector<std::function<void()>>& bodies,
                                   int rounds = 9);

// The same, with the machine's limits measured in the same rounds, on the calling thread's team.
// `isa` as for make_cpu_ops.
struct TimedBodies {
  std::vector<double> seconds;
  MachineLimits limits;
};
TimedBodies time_with_limits(const std::vector<std::function<void()>>& bodies, int rounds = 9,
                             const std::string& isa = "auto");

// The limits alone; about half a second.
MachineLimits measure_machine_limits(const std::string& isa = "auto");

}  // namespace chimera
