#pragma once
// From the configuration to what workers execute and allocate.
#include <vector>

#include "chimera/plan/footprint.h"
#include "chimera/schedule/generate.h"
#include "chimera/setup/config.h"

namespace chimera {

// The programs of a run: one step of training, and one batch of evaluation on the same placement.
struct Programs {
  schedule::Schedule train, evaluation;
};
schedule::Request schedule_request(const Config& config);
Programs build_programs(const Config& config);
std::vector<Index> stage_layers(const Config& config);
// What memory and times of a run depend on beside its schedule.
plan::Shape shape_of(const Config& config);
// Of every worker of a run, by rank: what a Worker allocates, without allocating it.
std::vector<plan::WorkerFootprint> footprints(const Config& config, const Programs& programs);

}  // namespace chimera
