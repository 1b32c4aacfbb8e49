// Actions of the warp operations, and the checks of their arguments.
#include <bit>

#include "emulator/device_code.h"

namespace emulator {

void shuffle_lanes(void* const* lanes, unsigned members) {
  for (unsigned i = 0; i < 32; ++i) {
    if ((members >> i & 1u) == 0) continue;
    auto& lane = *static_cast<ShuffleLane*>(lanes[i]);
    const bool there = lane.source >= 0 && lane.source < 32 && (members >> lane.source & 1u);
    if (there)
      lane.result = static_cast<const ShuffleLane*>(lanes[lane.source])->value;
    else
      poison(&lane.result, sizeof lane.result);
  }
}

void vote_lanes(void* const* lanes, unsigned members) {
  unsigned ballot = 0;
  for (unsigned i = 0; i < 32; ++i)
    if ((members >> i & 1u) && static_cast<const VoteLane*>(lanes[i])->value != 0)
      ballot |= 1u << i;
  for (unsigned i = 0; i < 32; ++i) {
    if ((members >> i & 1u) == 0) continue;
    auto& lane = *static_cast<VoteLane*>(lanes[i]);
    lane.ballot = ballot;
    for (unsigned j = 0; j < 32; ++j)
      if ((members >> j & 1u) && static_cast<const VoteLane*>(lanes[j])->value == lane.value)
        lane.same |= 1u << j;
  }
}

void check_width(int width, const Place& place) {
  if (width < 1 || width > 32 || !std::has_single_bit(static_cast<unsigned>(width)))
    kernel_error("a shuffle whose width is no power of two up to 32", place);
}

}  // namespace emulator
