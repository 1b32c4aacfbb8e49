#pragma once
// Schedules that are searched for rather than written down. All are deterministic: every worker
// finds the same on its own. `generate` has checked the request.
#include "chimera/base/types.h"
#include "chimera/schedule/generate.h"

namespace chimera::schedule {

// What a search may spend on improving, in constraints looked at: about a second. Counted and not
// timed, so that all workers stop at the same point.
inline constexpr Index kSearchWork = Index{1} << 29;

// Zero bubble H1 (Qi et al., ICLR 2024): one pipe, at most D micro-batches between forward and
// weight gradient. F = B = W: 3N + D - 1 for N >= D.
ComputePlan zb_h1(const Request& request);

// Chimera with the backward in two halves and a barrier at the step's end. F = B = W and N a
// multiple of D: 3N + D/(2f) - 1 (reached for f = 1 to D = 32), with at most D buffers.
ComputePlan chimera_split(const Request& request);

// The same without the barrier: a stage's next forward waits for that stage's own update alone
// (period > 0). The shortest period found, then the fewest buffers; `buffers` limits the
// micro-batches alive on a worker (0: no limit; where no schedule found keeps it, the one that
// comes nearest). F = B = W, N a multiple of D, update <= 1: no idle time with D buffers, in closed
// form.
ComputePlan chimera_overlapped(const Request& request, int buffers = 0, Index work = kSearchWork);

// Forward doubling for any f: forwards of two micro-batches, backwards of one. N a multiple of D.
ComputePlan chimera_doubling_searched(const Request& request);

}  // namespace chimera::schedule
