#pragma once
// Ops that keep the time of each call, for benchmarks.
#include <map>
#include <memory>
#include <string>

#include "chimera/ops/ops.h"

namespace chimera {

struct OpTime {
  double seconds = 0;
  Index calls = 0;
  double flops = 0;  // matrix products: 2 M N K
};

// Forwards every call to `inner` and adds its time to `times` under the op's name. `times` outlives
// the result. Ops that are several at once are called one by one, so that each has its own time.
std::unique_ptr<Ops> make_timed_ops(std::unique_ptr<Ops> inner,
                                    std::map<std::string, OpTime>& times);

}  // namespace chimera
