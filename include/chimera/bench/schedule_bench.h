#pragma once
// The simulator put to the test: the executor and the transport run a schedule's very programs, and
// the time of a step is compared with the simulated one. Stages either sleep for given times
// instead of computing, so that many workers run truthfully on few cores and what is above the
// simulation is what the runtime costs; or they compute, and the simulation gets the times that
// they took.
#include <string>
#include <vector>

#include "chimera/runtime/worker.h"
#include "chimera/schedule/simulate.h"

namespace chimera::bench {

struct BenchCase {
  std::string name;
  Config config;
  Programs programs;
  schedule::Costs costs;  // of the schedule's stages
};

// A layout of a model with one tiny block per stage: its messages and reductions take next to no
// time.
Config sleeping_config(const schedule::Request& request);
// `costs` are those of request.depth stages, and what a searched schedule is made for. UsageError
// when the schedule cannot run the request.
BenchCase sleeping_case(std::string name, schedule::Request request, const schedule::Costs& costs);
// `config` is the model and its layout; costs are measured when it runs.
BenchCase computing_case(std::string name, const Config& config);

struct MeasuredSteps {
  // From step to step in steady state, between their synchronisations: the median over the counted
  // steps; where steps overlap, over windows of several. Computing: their mean, as the costs are
  // means.
  double step_seconds = 0;
  Index steps = 0;                        // run in all, from step 0
  std::vector<schedule::Instr> executed;  // this worker's computations and updates, in order
  schedule::Costs costs;                  // of the case, or measured
};

// Called by every worker of a transport with the same arguments; the seconds are this worker's.
// About `steps` steps are counted, after those that fill the pipeline. Sleeping: each computation
// of m micro-batches takes m times its stage's seconds, and what one oversleeps is taken off the
// next, unless that one waited in between.
MeasuredSteps run_sleeping(const BenchCase& bench, Communicator& comm, Index steps);
// Computing: every step is traced, and the costs are the means over the counted ones.
MeasuredSteps run_computing(const BenchCase& bench, Communicator& comm, Index steps);

// Share of the workers' time that is not spent on computations and updates, at this time per step.
double bubble_ratio(const schedule::Simulation& simulation, double step_seconds);

}  // namespace chimera::bench
