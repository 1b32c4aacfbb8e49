#pragma once
// All schedules side by side on the same micro-batches and costs.
#include <string>
#include <vector>

#include "chimera/schedule/generate.h"
#include "chimera/schedule/simulate.h"

namespace chimera::schedule {

struct ComparedSchedule {
  std::string name;     // as in known_schedules(), with its variant: "chimera doubling"
  Request request;      // its own: without a flush, the micro-batches may be several steps
  std::string refusal;  // why it cannot run this; then nothing below is set

  double seconds = 0;                   // for the request's micro-batches, in steady state
  double bubble_ratio = 0;              // all causes
  double messages = 0, reductions = 0;  // of `seconds`, as in Simulation
  // Micro-batches of one D-th of the model that are in flight, and copies of one D-th of the
  // weights that are kept (Table 2's M_a and M_theta): least and most over the workers.
  double least_activations = 0, most_activations = 0;
  double least_weights = 0, most_weights = 0;
};

// The request as every known schedule would run it, in every way that its traits allow (f = 2,
// doubling, halving, split backward, overlapping steps), with its name. Nothing is checked.
struct NamedRequest {
  std::string name;
  Request request;
};
std::vector<NamedRequest> each_schedule(const Request& request);

// One row per element of each_schedule(). `request` names depth, micro-batches, width and what all
// share (tied, sync, ZeRO, recomputation); its schedule, f, scaling and halves are not looked at.
// Costs are those of D stages; a schedule with v virtual stages per worker gets a v-th per stage.
// One that takes virtual stages runs request.virtual_stages if above 1, else 2. Throws UsageError
// when none can run it.
std::vector<ComparedSchedule> compare(const Request& request, const Costs& costs);

// What the searched schedules need to know of the costs.
StageTimes times_for_search(const Costs& costs, const Request& request);
// Costs of D stages, for v times as many: each a v-th of the one it is cut from.
Costs costs_per_virtual_stage(const Costs& costs, int depth, int virtual_stages);

std::string render_text(const std::vector<ComparedSchedule>& rows);
std::string render_json(const std::vector<ComparedSchedule>& rows);
// Bars of time, bubble, activations and weights.
std::string render_svg(const std::vector<ComparedSchedule>& rows);

}  // namespace chimera::schedule
