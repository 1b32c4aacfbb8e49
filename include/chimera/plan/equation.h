#pragma once
// The paper's performance model (Eq. 1, section 3.4), with C_f and C_b counted on the schedule
// itself instead of taken from a table:
//   T = (F + p2p) C_f + (B + p2p) C_b + max over workers of what reductions do not hide
#include <functional>
#include <vector>

#include "chimera/plan/times.h"
#include "chimera/schedule/generate.h"

namespace chimera::plan {

// The longest chain of computations of one step: each worker computes in its order, a computation
// begins when its inputs are there.
struct CriticalPath {
  double seconds = 0;
  double forwards = 0, backwards = 0;  // C_f, C_b: micro-batches on that chain
  std::vector<double> end;             // per worker: of its last computation
  std::vector<double> stage_end;       // per stage: of its last weight gradient anywhere
};
// `stages`: seconds of one micro-batch per stage; of equally long chains the one with more
// backwards counts. A recomputation precedes the wait for the gradient. `message`: seconds of a
// message from one worker to another; empty: nothing. Only of plans with a barrier (period 0).
CriticalPath critical_path(const schedule::ComputePlan& plan,
                           const std::vector<StageSeconds>& stages,
                           const std::function<double(int from, int to)>& message = {});

// The busiest worker's seconds of computation in one step: no schedule is faster.
double busiest_worker(const schedule::ComputePlan& plan, const std::vector<StageSeconds>& stages);

struct Equation1 {
  // F, B: of the busiest worker's mean stage; a recomputation belongs to B, as in the paper.
  double forward = 0, backward = 0;
  double C_f = 0, C_b = 0, p2p = 0, unoverlapped = 0;
  double seconds() const { return (forward + p2p) * C_f + (backward + p2p) * C_b + unoverlapped; }
};
// What reductions of `reduction_seconds` per stage (nothing: 0) do not hide. Each worker reduces
// one stage after the other, largest first; eager: from the stage's last weight gradient on;
// otherwise from its own last computation on.
double unoverlapped_reductions(const schedule::ComputePlan& plan, const CriticalPath& path,
                               const std::vector<double>& reduction_seconds, bool eager);
Equation1 equation1(const schedule::ComputePlan& plan, const std::vector<StageSeconds>& stages,
                    double message_seconds, const std::vector<double>& reduction_seconds,
                    bool eager);

}  // namespace chimera::plan
