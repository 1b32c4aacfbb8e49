#include "chimera/schedule/build.h"

namespace chimera::schedule {

Schedule build_schedule(const Request& request) {
  Schedule schedule = lower(generate(request), lowering_of(request));
  verify(schedule);
  return schedule;
}

Schedule build_evaluation(const Schedule& training, int micro_batches) {
  Schedule schedule = lower(generate_evaluation(training.placement, training.depth, micro_batches),
                            {.tied = training.tied, .width = training.width});
  verify(schedule);
  return schedule;
}

}  // namespace chimera::schedule
