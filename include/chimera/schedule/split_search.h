#pragma once
// What buffers buy: idle time of the split Chimera against the micro-batches that a worker may
// hold.
#include <vector>

#include "chimera/schedule/generate.h"

namespace chimera::schedule {

struct TradePoint {
  int depth = 0, micro_batches = 0;
  int buffers =
      0;  // most micro-batches alive on a worker, forward's start to weight gradient's end
  double update = 0;  // R, in mean computations
  double idle = 0;    // per step on the busiest worker, in mean computations
};

// The points where more buffers buy less idle time, ascending buffers, for limits 1 … most_buffers
// (0: 2D); with a barrier at the step's end or, `overlap`, without. The request names depth,
// micro-batches, pairs, tying and times. The searches are generate's with a quarter of its work per
// point: about ten seconds for a curve at D = 16.
std::vector<TradePoint> split_trade_off(const Request& request, bool overlap, int most_buffers = 0);

}  // namespace chimera::schedule
