#pragma once
#include <map>
#include <string>
#include <vector>

#include "chimera/ops/op_times.h"
#include "chimera/setup/config.h"

namespace chimera::bench {

struct OpTimes {
  std::vector<double> seconds;        // of each counted step
  std::map<std::string, OpTime> ops;  // of all of them together
};
// Training steps of one worker on the CPU, on the calling thread's team; the first is not counted.
OpTimes measure_ops(const Config& config, Index steps);

}  // namespace chimera::bench
