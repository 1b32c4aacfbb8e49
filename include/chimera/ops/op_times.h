#pragma once
// The time of each call of an op, for benchmarks.
#include <map>
#include <memory>
#include <string>

#include "chimera/ops/op_interceptor.h"

namespace chimera {

struct OpTime {
  double seconds = 0;
  std::int64_t calls = 0;
  double flops = 0;  // matrix products: 2 M N K
};

// Adds the time of every call to `times` under the op's name; `times` outlives the ops. Composite
// ops are done one by one, so that each part has its own time.
std::unique_ptr<OpInterceptor> make_op_timer(std::map<std::string, OpTime>& times);

}  // namespace chimera
