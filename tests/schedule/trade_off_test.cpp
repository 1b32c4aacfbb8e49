// Idle time against buffers.
#include "chimera/schedule/split_search.h"
#include "support/support.h"

namespace chimera::schedule {
namespace {

TEST_CASE("more buffers buy less idle time, down to the bounds") {
  for (bool overlap : {false, true}) {
    CAPTURE(overlap);
    const std::vector<TradePoint> curve =
        split_trade_off({.depth = 4, .micro_batches = 8, .split_backward = true}, overlap);
    REQUIRE(curve.size() >= 2);
    for (std::size_t i = 1; i < curve.size(); ++i) {
      CHECK(curve[i].buffers > curve[i - 1].buffers);
      CHECK(curve[i].idle < curve[i - 1].idle);
    }
    // D/2 - 1 with a barrier, nothing without; three buffers are proved too few for nothing.
    CHECK(curve.back().buffers == 4);
    CHECK(curve.back().idle == (overlap ? 0 : 1));
  }
}

TEST_CASE("a curve names its update time in mean computations") {
  Request r = {.depth = 4, .micro_batches = 4, .split_backward = true};
  r.times.forward = r.times.input = r.times.weight = std::vector<double>(4, 0.5);
  r.times.update = 1;
  for (const TradePoint& point : split_trade_off(r, false)) CHECK(point.update == 2);
}

}  // namespace
}  // namespace chimera::schedule
